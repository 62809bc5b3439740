//lint:file-ignore SA1019 deprecated features must still work

package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The servers that receive the roots of the program are notified of changes, and no others.
func TestServersAreNotifiedOfChangedRoots(t *testing.T) {
	notified := make(chan string, 10)
	newServer := func(name string) host.ServerConfig {
		s := &server.Server{Name: name, RootsChanged: func(context.Context) { notified <- name }}
		return configOf(t, s, name)
	}
	own := newServer("own")
	own.Roots = []mcp.Root{{URI: "file:///own"}}
	h := &host.Host{
		Servers: []host.ServerConfig{own, newServer("files")},
		Roots:   func(context.Context, string) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil },
	}
	h.Dialer.Revision = mcp.V20251125
	start(t, h)
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.NotifyRootsChanged(t.Context())
	select {
	case name := <-notified:
		if name != "files" {
			t.Errorf("the server %s was notified", name)
		}
	case <-time.After(20 * time.Second):
		t.Error("no server was notified")
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	h.NotifyRootsChanged(t.Context()) // has no effect after Close
	if len(notified) > 0 {
		t.Errorf("the server %s was notified", <-notified)
	}
}
