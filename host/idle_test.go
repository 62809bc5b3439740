package host_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// newIdle returns a host with a lazy server that ends when it was idle for a minute. The tool sleep takes five minutes.
func newIdle(t *testing.T, sharing host.Sharing) *host.Host {
	s := &server.Server{Name: "idle", AllowedHosts: []string{"idle.example"}}
	server.AddTool(s, mcp.Tool{Name: "done"}, func(context.Context, none) (string, error) { return "done", nil })
	server.AddTool(s, mcp.Tool{Name: "sleep"}, func(context.Context, none) (string, error) {
		time.Sleep(5 * time.Minute)
		return "done", nil
	})
	server.AddStatic(s, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
	quiet := slog.New(slog.DiscardHandler)
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "idle", Target: client.URL("http://idle.example/mcp"), Lazy: true, Idle: time.Minute, Sharing: sharing}},
		Dialer:  client.Dialer{Revision: mcp.V20251125, HTTPClient: &http.Client{Transport: &flaky{server: s}}, Logger: quiet},
		Logger:  quiet,
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLazyServerEndsWhenItIsIdle(t *testing.T) {
	for _, sharing := range []host.Sharing{host.Shared, host.PerCaller} {
		synctest.Test(t, func(t *testing.T) {
			h := newIdle(t, sharing)
			defer h.Close()
			want := func(after time.Duration, state host.State) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				if got := h.Status()[0].State; got != state {
					t.Errorf("%s: the server is %v, want %v", sharing, got, state)
				}
			}
			call := func(tool string) {
				t.Helper()
				if _, err := h.CallTool(client.WithCaller(t.Context(), "ada"), "idle", tool, nil, client.WithTimeout(time.Hour)); err != nil {
					t.Error(err)
				}
			}
			for range 2 { // it starts again
				call("done")
				want(59*time.Second, host.Ready)
				call("done")
				want(59*time.Second, host.Ready)
				want(2*time.Second, host.NotStarted)
				if n := len(h.Tools()); n != 2 {
					t.Errorf("%d tools are known", n)
				}
				want(time.Hour, host.NotStarted)
			}
			go call("sleep")
			want(5*time.Minute-time.Second, host.Ready)
			want(time.Minute-time.Second, host.Ready)
			want(4*time.Second, host.NotStarted)

			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- h.Subscribe(ctx, "idle", "lib://a", func() {}) }() // starts it
			want(time.Hour, host.Ready)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			want(2*time.Minute+time.Second, host.NotStarted)
		})
	}
}

func TestProgramOfAnIdleServerEnds(t *testing.T) {
	config := inProcess("idle")
	config.Idle = time.Nanosecond // it is not lazy, so it starts at first
	h := &host.Host{Servers: []host.ServerConfig{config}}
	startReady(t, h)
	seen := make(map[int]bool)
	for range 3 {
		id, err := who(t, h, "idle")
		if err != nil {
			t.Fatal(err)
		}
		seen[id.Pid] = true
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for status := range h.Watch(ctx) {
			if status.State == host.NotStarted {
				break
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the server has not ended")
		}
		cancel()
	}
	if len(seen) != 3 {
		t.Errorf("processes %v, want three", seen)
	}
}

func TestNegativeIdleTimeIsRejected(t *testing.T) {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "s", Target: client.URL("http://127.0.0.1:1"), Idle: -1}}}
	if err := h.Start(); err == nil || !strings.Contains(err.Error(), "negative Idle") {
		t.Error(err)
	}
}
