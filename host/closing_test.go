package host_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/host"
)

// An audit log that is slow does not delay the end of the host.
func TestSlowAuditOfSetServersDoesNotDelayClose(t *testing.T) {
	config := configOf(t, toolbox("up", "read", "write"), "up")
	config.Tools.Hide = []string{"write"}
	recording, release := make(chan struct{}), make(chan struct{})
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{config},
		Review: func(d host.Definition) error {
			if d.Name == "write" && d.Kind == host.KindTool {
				return errors.New("not reviewed")
			}
			return nil
		},
		Audit: func(_ context.Context, r *host.AuditRecord) error {
			if r.Event == host.AuditWithheld && r.Kind == host.KindTool {
				close(recording)
				<-release
			}
			return nil
		},
	})
	await(t, h, "up", isReady)
	config.Tools.Hide = nil
	var setting sync.WaitGroup
	setting.Go(func() { _ = h.SetServers([]host.ServerConfig{config}) })
	<-recording
	closed := make(chan struct{})
	setting.Go(func() {
		h.Close()
		close(closed)
	})
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("Close waits for the audit log")
	}
	close(release)
	setting.Wait()
}
