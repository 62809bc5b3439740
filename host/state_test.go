package host_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestServerThatRequiresALoginHasAStateOfItsOwn(t *testing.T) {
	var loggedIn atomic.Bool
	s := newServer("private")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loggedIn.Load() {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	h := start(t, &host.Host{Servers: []host.ServerConfig{{Name: "private", Target: client.URL(web.URL)}}})
	status := await(t, h, "private", func(s host.ServerStatus) bool { return s.State != host.Starting })
	if status.State != host.NeedsLogin || status.State.String() != "needs login" || status.State.Usable() || status.Err == nil {
		t.Errorf("%v: %v", status.State, status.Err)
	}
	if down := new(host.DownError); !errors.As(h.WaitReady(t.Context()), &down) {
		t.Error("WaitReady returns no *DownError")
	}
	loggedIn.Store(true)
	await(t, h, "private", isReady) // without a call
}

func TestServerIsDegradedWhileAListCannotBeUpdated(t *testing.T) {
	var broken atomic.Bool
	s := newServer("flaky")
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodListTools && broken.Load() {
				return nil, errors.New("out of order")
			}
			return next(ctx, c)
		}
	}}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "flaky")}})
	await(t, h, "flaky", isReady)
	add := func(name string) {
		server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, none) (string, error) { return "", nil })
	}
	broken.Store(true)
	add("late")
	status := await(t, h, "flaky", func(s host.ServerStatus) bool { return s.State == host.Degraded })
	if len(status.Tools) != 2 || !status.State.Usable() || !strings.Contains(status.Incomplete.Error(), "cannot update a list") {
		t.Errorf("%d tools, %v", len(status.Tools), status.Incomplete)
	}
	if _, err := who(t, h, "flaky"); err != nil {
		t.Errorf("a call of a degraded server: %v", err)
	}
	if err := h.WaitReady(t.Context()); err != nil {
		t.Errorf("WaitReady: %v", err)
	}
	broken.Store(false)
	add("later")
	if status := await(t, h, "flaky", func(s host.ServerStatus) bool { return s.State == host.Ready }); len(status.Tools) != 4 || status.Incomplete != nil {
		t.Errorf("%d tools, %v", len(status.Tools), status.Incomplete)
	}
}
