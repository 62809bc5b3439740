package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestEntriesOfServersThatAreRemovedDisappear(t *testing.T) {
	library := func(name string) host.ServerConfig {
		s := &server.Server{Name: name, Version: "1", Instructions: "Text of " + name + "."}
		server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return name, nil })
		server.AddStatic(s, mcp.Resource{URI: "lib://shared", Name: name}, name)
		return inMemory(t, name, s)
	}
	a, b := library("a"), library("b")
	h := &host.Host{Servers: []host.ServerConfig{a, b}}
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, h, s)
	must.Do(t, h.SetServers([]host.ServerConfig{b, library("c")}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := mcptest.Dial(t, s)
	want := []string{"b__t", "c__t"}
	var names []string
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		must.Do(t, err, names, want)
		names = nil
		for _, tool := range listed(t, c) {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); slices.Equal(names, want) {
			break
		}
	}
	result := must.Get(c.ReadResource(t.Context(), "server:b/lib://shared"))(t)
	must.CheckEqual(t, result.Contents[0].Text, "b", result)
	text := mcptest.Dial(t, s).Server().Instructions
	must.CheckThat(t, strings.Contains(text, "Text of b.") && !strings.Contains(text, "Text of a."),
		"instructions %q", text)
}

func TestLazyServerThatIsAddedLaterStartsWhenItIsNeeded(t *testing.T) {
	config := httpConfig(t, "lazy", large())
	config.Lazy = true
	h, s := &host.Host{}, &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, h, s)
	must.Do(t, h.SetServers([]host.ServerConfig{config}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for status := range h.Watch(ctx) {
		if status.Name == "lazy" && status.State == host.NotStarted {
			break
		}
	}
	c := mcptest.Dial(t, s)
	for ctx.Err() == nil { // the gateway learns of the server soon
		if got, err := client.CallTool[string](ctx, c, "lazy__small", nil); err == nil && got == "small" {
			return
		}
	}
	t.Error("the server has not started")
}

// The first request that needs something from a lazy server starts the server and succeeds.
func TestFirstRequestStartsLazyServers(t *testing.T) {
	lists := func(ctx context.Context, c *client.Client) bool {
		for tool := range c.Tools(ctx) {
			if tool.Name == "lazy__small" {
				return true
			}
		}
		return false
	}
	for name, use := range map[string]func(ctx context.Context, c *client.Client) bool{
		"tools/list": lists,
		"tools/call": func(ctx context.Context, c *client.Client) bool {
			got, err := client.CallTool[string](ctx, c, "lazy__small", nil)
			return err == nil && got == "small"
		},
		"resources/read": func(ctx context.Context, c *client.Client) bool {
			_, err := c.ReadResource(ctx, "lib://lazy")
			return err == nil
		},
	} {
		for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			up, other := large(), &server.Server{Name: "other"}
			server.AddStatic(up, mcp.Resource{URI: "lib://lazy", Name: "lazy"}, "text")
			server.AddTool(other, mcp.Tool{Name: "t"}, func(context.Context, none) (string, error) { return "", nil })
			config := httpConfig(t, "lazy", up)
			config.Lazy = true
			h := &host.Host{Servers: []host.ServerConfig{config, httpConfig(t, "other", other)}}
			s := &server.Server{Name: "gateway", Version: "1"}
			gatewaytest.Run(t, h, s)
			state := func() host.State { return h.Status()[0].State }
			first := mcptest.Dial(t, s, mcptest.WithRevision(r))
			must.Check(t, must.Err(first.CallTool(t.Context(), "other__t", nil)))
			must.CheckEqual(t, state(), host.NotStarted, name, "before it is needed")
			var users sync.WaitGroup
			for range 10 { // at the same time
				c := mcptest.Dial(t, s, mcptest.WithRevision(r))
				users.Go(func() {
					must.CheckThat(t, use(t.Context(), c), "%s: the request does not have what the server has", name)
				})
			}
			users.Wait()
			if state() != host.Ready || !lists(t.Context(), first) {
				t.Errorf("%s: the server is %v", name, state())
			}
		}
	}
}

// A server that does not respond, one that requires a login and one that cannot be started do not delay the lists.
func TestListsDoNotWaitForServersThatAreNotReady(t *testing.T) {
	release := make(chan struct{})
	slow := answering("slow")
	waiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			slow.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(waiting.Close)
	respond := sync.OnceFunc(func() { close(release) })
	t.Cleanup(respond)
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "log in", http.StatusUnauthorized)
	}))
	t.Cleanup(private.Close)
	h := &host.Host{Logger: quiet, Servers: []host.ServerConfig{
		inMemory(t, "fast", answering("fast")),
		{Name: "gone", Target: client.Command("no-such-program-anywhere")},
		{Name: "private", Target: client.URL(private.URL)},
		{Name: "slow", Target: client.URL(waiting.URL)},
	}}
	start(t, h)
	must.Do(t, h.WaitReady(t.Context(), "fast"))
	s := present(t, h, nil)
	partly := present(t, h, &gateway.Toolset{Servers: []string{"fast"}, Tools: []string{"gone__*"}})
	const text = "are missing in the lists, because the servers are not ready: "
	awaitInstructions(t, func() string {
		return mcptest.Dial(t, s).Server().Instructions
	}, text+"gone, private (needs a login), slow. ")
	awaitInstructions(t, func() string { return mcptest.Dial(t, partly).Server().Instructions }, text+"gone. ")
	respond()
	awaitList(t, mcptest.Dial(t, s), func(tools []*mcp.Tool) bool { return len(tools) == 2 })
	awaitInstructions(t, func() string {
		return mcptest.Dial(t, s).Server().Instructions
	}, text+"gone, private (needs a login). ")
}

// awaitInstructions waits until instructions contain a text.
func awaitInstructions(t *testing.T, instructions func() string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		got := instructions()
		if strings.Contains(got, want) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("instructions %q, want %q", got, want)
		}
	}
}

// Once WaitReady has returned, a tool can be called: WaitReady waits until Run has registered it.
func TestWaitReadyWaitsForTheRegistrations(t *testing.T) {
	upstream := &server.Server{Name: "greeter"}
	server.AddTool(upstream, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) {
		return "Hello!", nil
	})
	endpoint := httptest.NewServer(upstream)
	defer endpoint.Close()

	h := &host.Host{Servers: []host.ServerConfig{{Name: "people", Target: client.URL(endpoint.URL)}}}
	s := &server.Server{Name: "gateway"}
	g := must.Get(gateway.New(h, s))(t)
	must.Do(t, h.Start())
	defer h.Close()
	must.Do(t, h.WaitReady(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must.CheckIs(t, g.WaitReady(ended), context.Canceled, "before Run")

	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(running)
	}()
	waiting, cancelWaiting := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelWaiting()
	must.Do(t, g.WaitReady(waiting))
	c := mcptest.Dial(t, s)
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "people__greet", nil))(t), "Hello!")

	status := h.Status()[0]
	later, other := status, host.ServerStatus{Name: "other", State: host.Ready}
	later.Version++
	other.Version = 1
	awaited := make(chan error, 1)
	go func() { awaited <- g.Await(t.Context(), later) }()
	must.Check(t, g.Await(t.Context(), host.ServerStatus{Name: "other", State: host.Removed}))
	must.Check(t, g.Await(t.Context(), other), "a server that the host no longer has")
	select {
	case err := <-awaited:
		t.Errorf("a status that is not registered: %v", err)
	default:
	}
	stop()
	<-done
	must.CheckIs(t, <-awaited, call.ErrClosed, "after Run")
	must.Check(t, g.Await(t.Context(), status), "a status that is registered")
}

// Many clients list once, right after the gateway has started, and do not follow changes. Requests wait for servers
// that are starting, but only for a limited time; after that, an error names the server.
func TestFirstRequestsWaitForServersThatAreStarting(t *testing.T) {
	for _, r := range mcp.Revisions() {
		for _, request := range []string{"list", "call", "prompt", "read"} {
			synctest.Test(t, func(t *testing.T) {
				c, _ := startingSlowly(t, r, 6*time.Second)
				began := time.Now()
				var err error
				switch request {
				case "list":
					must.CheckEqual(t, len(listed(t, c)), 2, r)
				case "call":
					_, err = c.CallTool(t.Context(), "slow__t", nil)
				case "prompt":
					_, err = c.GetPrompt(t.Context(), "slow__t", nil)
				case "read":
					_, err = c.ReadResource(t.Context(), "slow://one")
				}
				must.Check(t, err)
				took := time.Since(began)
				must.CheckThat(t, took <= 8*time.Second, "%s: %s after %v", r, request, took)
			})
		}
		synctest.Test(t, func(t *testing.T) { // a server that takes too long
			c, release := startingSlowly(t, r, time.Hour)
			began := time.Now()
			must.CheckEqual(t, len(listed(t, c)), 1, r)
			took := time.Since(began)
			must.CheckThat(t, took <= 11*time.Second, "%s: listed after %v", r, took)
			again := time.Now()
			_, err := c.CallTool(t.Context(), "slow__t", nil)
			must.CheckContains(t, fmt.Sprint(err), `server "slow" is still starting`, r)
			must.CheckEqual(t, len(listed(t, c)), 1, r)
			must.Check(t, must.Err(c.CallTool(t.Context(), "fast__t", nil)))
			must.CheckThat(t, time.Since(again) <= time.Second, "%s: later requests take %v", r, time.Since(again))
			_, err = c.CallTool(t.Context(), "other__t", nil)
			must.CheckContains(t, fmt.Sprint(err), "unknown tool", r)
			time.Sleep(time.Minute)
			_, err = c.CallTool(t.Context(), "slow__t", nil)
			must.CheckContains(t, fmt.Sprint(err), `server "slow" is down`, r)
			release()
		})
	}
}

// startingSlowly returns a client of a gateway to two servers, one of which takes some time to start.
func startingSlowly(t *testing.T, r mcp.Revision, delay time.Duration) (c *client.Client, release func()) {
	fast, slow := upstreamOf(t, "fast", "t"), upstreamOf(t, "slow", "t")
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	h := &host.Host{Servers: []host.ServerConfig{fast, slow}, Logger: quiet,
		AdaptDialer: func(name string, d *client.Dialer) {
			d.Logger = quiet
			d.Middleware = append(d.Middleware, func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					if name == "slow" && c.Method() == mcp.MethodListTools {
						select {
						case <-time.After(delay):
						case <-released:
						case <-ctx.Done():
							return nil, context.Cause(ctx)
						}
					}
					return next(ctx, c)
				}
			})
		}}
	s := &server.Server{Name: "gateway", Version: "1", Logger: quiet}
	g := must.Get(gateway.New(h, s))(t)
	g.Logger = quiet
	must.Do(t, h.Start())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		h.Close()
	})
	return mcptest.Dial(t, s, mcptest.WithRevision(r)), release
}
