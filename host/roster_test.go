package host_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestSetServersChangesOnlyWhatDiffers(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inProcess("kept"), inProcess("changed"), inMemory(t, "removed")}})
	before := make(map[string]identity)
	for _, name := range []string{"kept", "changed", "removed"} {
		id, err := who(t, h, name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = id
	}
	changed := inProcess("changed")
	changed.Target.(*client.CommandTarget).Env = append(changed.Target.(*client.CommandTarget).Env, "OTHER=1")
	if err := h.SetServers([]host.ServerConfig{inMemory(t, "added"), changed, inProcess("kept")}); err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]bool{"kept": true, "changed": false} {
		if id, err := who(t, h, name); err != nil || (id == before[name]) != same {
			t.Errorf("%s: %+v, %v; before %+v", name, id, err, before[name])
		}
	}
	if id, err := who(t, h, "added"); err != nil || id.Name != "added" {
		t.Errorf("added: %+v, %v", id, err)
	}
	if _, err := who(t, h, "removed"); !errors.Is(err, host.ErrUnknownServer) {
		t.Errorf("removed: %v", err)
	}
	var names []string
	for _, s := range h.Status() {
		names = append(names, s.Name)
	}
	if want := []string{"added", "changed", "kept"}; !slices.Equal(names, want) {
		t.Errorf("servers %q, want %q", names, want)
	}
}

func TestCallsInFlightEndBeforeTheirServer(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s := newServer("one")
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ none) (string, error) {
		close(began)
		select {
		case <-release:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "one")}})
	result := make(chan error, 1)
	go func() {
		r, err := h.Call(context.Background(), "one__wait", nil)
		if err == nil && r.IsError {
			err = errors.New("tool error")
		}
		result <- err
	}()
	<-began
	if err := h.SetServers([]host.ServerConfig{configOf(t, newServer("other"), "one")}); err != nil {
		t.Fatal(err)
	}
	if id, err := who(t, h, "one"); err != nil || id.Name != "other" {
		t.Errorf("the next call reaches %q, %v", id.Name, err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestWatchYieldsServersThatWereRemoved(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one"), inMemory(t, "two")}})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	set := false
	var got []string
	for s := range h.Watch(t.Context()) {
		if s.State == host.Starting {
			continue
		}
		got = append(got, fmt.Sprint(s.Name, " ", s.State))
		if len(got) == 2 && !set {
			set = true
			if err := h.SetServers([]host.ServerConfig{inMemory(t, "two")}); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 4 {
			break
		}
	}
	slices.Sort(got[2:])
	if want := []string{"one ready", "two ready", "one removed", "two ready"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSubscriptionsContinueWithTheServerThatReplacesTheirs(t *testing.T) {
	library := func() (*server.Server, host.ServerConfig) {
		s := newServer("library")
		server.AddStatic(s, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
		return s, configOf(t, s, "library")
	}
	_, one := library()
	h := start(t, &host.Host{Servers: []host.ServerConfig{one}})
	updated, ended := make(chan struct{}, 16), make(chan error, 1)
	go func() {
		ended <- h.Subscribe(context.Background(), "library", "lib://a", func() { updated <- struct{}{} })
	}()
	<-updated // at the start
	two, config := library()
	if err := h.SetServers([]host.ServerConfig{config}); err != nil {
		t.Fatal(err)
	}
	<-updated
	two.ResourceUpdated("lib://a")
	<-updated
	if err := h.SetServers(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, host.ErrUnknownServer) {
		t.Error(err)
	}
}

func TestSetServersMayBeCalledWhileStartRuns(t *testing.T) {
	h := &host.Host{}
	defer h.Close()
	started := make(chan error, 1)
	go func() { started <- h.Start() }()
	for errors.Is(h.SetServers(nil), host.ErrClosed) {
		runtime.Gosched()
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
}

func TestInvalidServersChangeNothing(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one")}})
	for name, servers := range map[string][]host.ServerConfig{
		"no target":    {{Name: "two"}},
		"invalid name": {{Name: "a__b", Target: client.URL("http://127.0.0.1:1")}},
		"same name":    {inMemory(t, "two"), inMemory(t, "two")},
	} {
		if err := h.SetServers(servers); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := who(t, h, "one"); err != nil {
		t.Error(err)
	}
	h.Close()
	if err := h.SetServers(nil); !errors.Is(err, host.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := new(host.Host).SetServers(nil); !errors.Is(err, host.ErrClosed) {
		t.Errorf("before Start: %v", err)
	}
}

func TestRevisionOfAServerReplacesThatOfTheDialer(t *testing.T) {
	old, other := configOf(t, newCounted().Server, "old"), configOf(t, newCounted().Server, "other")
	old.Revision = mcp.V20250618
	h := start(t, &host.Host{Servers: []host.ServerConfig{old, other}, Dialer: client.Dialer{Revision: mcp.V20251125}})
	for name, want := range map[string]mcp.Revision{"old": mcp.V20250618, "other": mcp.V20251125} {
		if s := await(t, h, name, isReady); s.Revision != want {
			t.Errorf("%s uses %s, want %s", name, s.Revision, want)
		}
	}
	old.Revision = "2025-06-17"
	if err := old.Check(); err == nil || !strings.Contains(err.Error(), `revision of server "old" must be one of`) {
		t.Error(err)
	}
}
