package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestSetServersChangesOnlyWhatDiffers(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inProcess("kept"), inProcess("changed"),
		inMemory(t, "removed")}})
	before := make(map[string]identity)
	for _, name := range []string{"kept", "changed", "removed"} {
		id := must.Get(who(t, h, name))(t)
		before[name] = id
	}
	changed := inProcess("changed")
	changed.Target.(*client.CommandTarget).Env = append(changed.Target.(*client.CommandTarget).Env, "OTHER=1")
	must.Do(t, h.SetServers([]host.ServerConfig{inMemory(t, "added"), changed, inProcess("kept")}))
	for name, same := range map[string]bool{"kept": true, "changed": false} {
		id := must.Get(who(t, h, name))(t)
		must.CheckEqual(t, id == before[name], same, name, id, before[name])
	}
	id := must.Get(who(t, h, "added"))(t)
	must.CheckEqual(t, id.Name, "added", id)
	must.CheckIs(t, must.Err(who(t, h, "removed")), host.ErrUnknown)
	var names []string
	for _, s := range h.Status() {
		names = append(names, s.Name)
	}
	want := []string{"added", "changed", "kept"}
	must.CheckThat(t, slices.Equal(names, want), "servers %q, want %q", names, want)
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
	must.Do(t, h.SetServers([]host.ServerConfig{configOf(t, newServer("other"), "one")}))
	must.CheckEqual(t, must.Get(who(t, h, "one"))(t).Name, "other")
	close(release)
	must.Check(t, <-result)
}

func TestWatchYieldsServersThatWereRemoved(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one"), inMemory(t, "two")}})
	must.Do(t, h.WaitReady(t.Context()))
	set := false
	var got []string
	for s := range h.Watch(t.Context()) {
		if s.State == host.Starting {
			continue
		}
		got = append(got, fmt.Sprint(s.Name, " ", s.State))
		if len(got) == 2 && !set {
			set = true
			must.Do(t, h.SetServers([]host.ServerConfig{inMemory(t, "two")}))
		}
		if len(got) == 4 {
			break
		}
	}
	slices.Sort(got[2:])
	want := []string{"one ready", "two ready", "one removed", "two ready"}
	must.CheckThat(t, slices.Equal(got, want), "%q, want %q", got, want)
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
		ended <- h.Client("library").Subscribe(context.Background(), "lib://a", func() { updated <- struct{}{} })
	}()
	<-updated // sent at the start
	two, config := library()
	must.Do(t, h.SetServers([]host.ServerConfig{config}))
	<-updated
	two.ResourceUpdated("lib://a")
	<-updated
	must.Do(t, h.SetServers(nil))
	must.CheckIs(t, <-ended, host.ErrUnknown)
}

func TestSetServersMayBeCalledWhileStartRuns(t *testing.T) {
	h := &host.Host{}
	defer h.Close()
	started := make(chan error, 1)
	go func() { started <- h.Start() }()
	for errors.Is(h.SetServers(nil), call.ErrClosed) {
		runtime.Gosched()
	}
	must.Check(t, <-started)
}

func TestInvalidServersChangeNothing(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "one")}})
	for name, servers := range map[string][]host.ServerConfig{
		"no target":    {{Name: "two"}},
		"invalid name": {{Name: "a__b", Target: client.URL("http://127.0.0.1:1")}},
		"same name":    {inMemory(t, "two"), inMemory(t, "two")},
	} {
		err := h.SetServers(servers)
		must.CheckThat(t, err != nil, "%s: no error", name)
	}
	must.Check(t, must.Err(who(t, h, "one")))
	h.Close()
	must.CheckIs(t, h.SetServers(nil), call.ErrClosed)
	must.CheckIs(t, new(host.Host).SetServers(nil), call.ErrClosed)
}

func TestRevisionOfAServerReplacesThatOfTheDialer(t *testing.T) {
	old, other := configOf(t, newCounted().Server, "old"), configOf(t, newCounted().Server, "other")
	old.Revision = mcp.V20250618
	h := start(t, &host.Host{Servers: []host.ServerConfig{old, other}, Dialer: client.Dialer{Revision: mcp.V20251125}})
	for name, want := range map[string]mcp.Revision{"old": mcp.V20250618, "other": mcp.V20251125} {
		must.CheckEqual(t, await(t, h, name, isReady).Revision, want, name)
	}
	old.Revision = "2025-06-17"
	must.CheckFails(t, old.Check(), `revision of server "old" must be one of`)
}

// newIdle returns a host with a lazy server that is stopped after a minute without calls. Its tool sleep takes five
// minutes.
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
		Servers: []host.ServerConfig{{Name: "idle", Target: client.URL("http://idle.example/mcp"), Lazy: true,
			Idle: time.Minute, Sharing: sharing}},
		Dialer: client.Dialer{Revision: mcp.V20251125, HTTPClient: &http.Client{Transport: &flaky{server: s}},
			Logger: quiet},
		Logger: quiet,
	}
	must.Do(t, h.Start())
	return h
}

func TestLazyServerEndsWhenItIsIdle(t *testing.T) {
	for _, sharing := range []host.Sharing{host.SharingEveryone, host.SharingSession} {
		synctest.Test(t, func(t *testing.T) {
			h := newIdle(t, sharing)
			defer h.Close()
			want := func(after time.Duration, state host.State) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				must.CheckEqual(t, h.Status()[0].State, state, sharing)
			}
			call := func(tool string) {
				t.Helper()
				must.Check(t,
					must.Err(h.Client("idle").CallTool(inSession(t, "ada"), tool, nil, client.WithTimeout(time.Hour))))
			}
			for range 2 { // the server starts again
				call("done")
				want(59*time.Second, host.Ready)
				call("done")
				want(59*time.Second, host.Ready)
				want(2*time.Second, host.NotStarted)
				must.CheckEqual(t, len(h.Tools()), 2)
				want(time.Hour, host.NotStarted)
			}
			go call("sleep")
			want(5*time.Minute-time.Second, host.Ready)
			want(time.Minute-time.Second, host.Ready)
			want(4*time.Second, host.NotStarted)

			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- h.Client("idle").Subscribe(ctx, "lib://a", func() {}) }() // starts the server
			want(time.Hour, host.Ready)
			cancel()
			must.Check(t, <-done)
			want(2*time.Minute+time.Second, host.NotStarted)
		})
	}
}

func TestProgramOfAnIdleServerEnds(t *testing.T) {
	config := inProcess("idle")
	config.Idle = time.Nanosecond // not lazy, so the server starts right away
	h := &host.Host{Servers: []host.ServerConfig{config}}
	startReady(t, h)
	seen := make(map[int]bool)
	for range 3 {
		id := must.Get(who(t, h, "idle"))(t)
		seen[id.Pid] = true
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for status := range h.Watch(ctx) {
			if status.State == host.NotStarted {
				break
			}
		}
		must.Do(t, ctx.Err(), "the server has not ended")
		cancel()
	}
	must.CheckEqual(t, len(seen), 3, seen)
}

func TestNegativeIdleTimeIsRejected(t *testing.T) {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "s", Target: client.URL("http://127.0.0.1:1"), Idle: -1}}}
	must.CheckFails(t, h.Start(), "negative Idle")
}

func TestLazyServerStartsWhenItIsNeeded(t *testing.T) {
	for name, use := range map[string]func(context.Context, *host.Host) error{
		"CallTool": func(ctx context.Context, h *host.Host) error {
			_, err := h.Client("lazy").CallTool(ctx, "who", nil)
			return err
		},
		"Call": func(ctx context.Context, h *host.Host) error {
			_, err := h.Call(ctx, "lazy__who", nil)
			return err
		},
		"WaitReady": func(ctx context.Context, h *host.Host) error { return h.WaitReady(ctx, "eager", "lazy") },
	} {
		t.Run(name, func(t *testing.T) {
			lazy := inProcess("lazy")
			lazy.Lazy = true
			h := &host.Host{Servers: []host.ServerConfig{lazy, inMemory(t, "eager")}}
			startReady(t, h)
			must.Get(who(t, h, "eager"))(t)
			if s := h.Status()[0]; s.State != host.NotStarted || s.State.String() != "not started" ||
				s.State == host.Ready || len(h.Tools()) != 2 {
				t.Errorf("the server is %v before it is needed", s.State)
			}
			must.Do(t, use(t.Context(), h))
			s := h.Status()[0]
			must.CheckThat(t, s.State == host.Ready && len(h.Tools()) == 4, "the server is %v", s.State)
		})
	}
}

func TestLazyServerEndsWithoutAStart(t *testing.T) {
	lazy := inProcess("lazy")
	lazy.Lazy = true
	h := &host.Host{Servers: []host.ServerConfig{lazy}}
	startReady(t, h)
	must.Do(t, h.SetServers(nil))
	must.Check(t, h.Close())
}

// A slow audit log does not delay Close.
func TestSlowAuditOfSetServersDoesNotDelayClose(t *testing.T) {
	config := configOf(t, toolbox("up", "read", "write"), "up")
	config.Tools.Hide = []string{"write"}
	recording, release := make(chan struct{}), make(chan struct{})
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{config},
		Review: func(d host.Definition) error {
			if d.Name == "write" && d.Kind == "tool" {
				return errors.New("not reviewed")
			}
			return nil
		},
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			if r["event"] == "withheld" && r["kind"] == "tool" {
				close(recording)
				<-release
			}
			return nil
		}),
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
	must.Receive(t, closed, "Close")
	close(release)
	setting.Wait()
}
