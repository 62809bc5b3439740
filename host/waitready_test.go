package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestWaitReadyWaitsForTheNamedServersOnly(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{
		inMemory(t, "fine"),
		{Name: "missing", Target: client.Command("no-such-program-anywhere")},
	}})
	if err := h.WaitReady(t.Context(), "fine"); err != nil {
		t.Errorf("the server that is ready: %v", err)
	}
	if err := h.WaitReady(t.Context(), "missing", "fine"); err == nil || !strings.Contains(err.Error(), `"missing" is down`) {
		t.Errorf("the server that is missing: %v", err)
	}
	if err := h.WaitReady(t.Context(), "fine", "unknown"); !errors.Is(err, host.ErrUnknownServer) {
		t.Errorf("an unknown server: %v", err)
	}
}

func TestCallsHaveADeadlineOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &server.Server{}
		cancelled := make(chan struct{})
		server.AddTool(slow, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ none) (string, error) {
			<-ctx.Done()
			close(cancelled)
			return "", ctx.Err()
		})
		h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, slow, "slow")}})
		_, err := h.Call(t.Context(), "slow__wait", nil, client.WithTimeout(time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call returns %v", err)
		}
		<-cancelled // the server receives the cancellation
		if status := h.Status()[0]; status.State != host.Ready {
			t.Errorf("the server is %v after a call has taken too long", status.State)
		}
		h.Close()
	})
}
