package gateway_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// A tool can be called when WaitReady has returned, which is not before Run has registered it.
func TestWaitReadyWaitsForTheRegistrations(t *testing.T) {
	upstream := &server.Server{Name: "greeter"}
	server.AddTool(upstream, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	endpoint := httptest.NewServer(upstream)
	defer endpoint.Close()

	h := &host.Host{Servers: []host.ServerConfig{{Name: "people", Target: client.URL(endpoint.URL)}}}
	s := &server.Server{Name: "gateway"}
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.WaitReady(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("before Run: %v, want %v", err, context.Canceled)
	}

	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(running)
	}()
	waiting, cancelWaiting := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelWaiting()
	if err := g.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
	c := mcptest.Dial(t, s)
	if text, err := client.CallTool[string](t.Context(), c, "people__greet", nil); err != nil || text != "Hello!" {
		t.Errorf("%q, %v", text, err)
	}

	status := h.Status()[0]
	later := status
	later.Version++
	awaited := make(chan error, 1)
	go func() { awaited <- g.Await(t.Context(), later) }()
	if err := g.Await(t.Context(), host.ServerStatus{Name: "other", State: host.Removed}); err != nil {
		t.Errorf("a server that the host does not have: %v", err)
	}
	if err := g.Await(t.Context(), host.ServerStatus{Name: "other", State: host.Ready, Version: 1}); err != nil {
		t.Errorf("a server that the host no longer has: %v", err)
	}
	select {
	case err := <-awaited:
		t.Errorf("a status that is not registered: %v", err)
	default:
	}
	stop()
	<-done
	if err := <-awaited; !errors.Is(err, host.ErrClosed) {
		t.Errorf("after Run: %v, want %v", err, host.ErrClosed)
	}
	if err := g.Await(t.Context(), status); err != nil {
		t.Errorf("a status that is registered: %v", err)
	}
}
