package mcptest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// changing makes servers with something of each kind, and leaves the last in *s.
func changing(s **server.Server) func() *server.Server {
	return func() *server.Server {
		*s = newServer()
		server.AddPrompt(*s, mcp.Prompt{Name: "greet"}, func(context.Context, struct{}) (string, error) { return "Greet.", nil })
		server.AddStatic(*s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
		server.AddStatic(*s, mcp.Resource{URI: "note://b", Name: "b"}, "b")
		return *s
	}
}

// watched is a watch that is being read, change by change.
type watched struct {
	t    *testing.T
	next func() (client.Change, error, bool)
}

func watch(t *testing.T, c *client.Client, options client.WatchFilter) *watched {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	next, stop := iter.Pull2(c.Watch(ctx, options))
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return &watched{t, next}
}

// until reads changes up to one that is wanted. Of those before, each must be one
// of the others that may come.
func (w *watched) until(want client.Change, others ...client.Change) {
	w.t.Helper()
	for {
		got, err, ok := w.next()
		if err != nil || !ok {
			w.t.Fatalf("waiting for %v: error %v, goes on %v", want, err, ok)
		}
		if got == want {
			return
		}
		allowed := got.Resync
		for _, o := range others {
			allowed = allowed || got == o
		}
		if !allowed {
			w.t.Fatalf("waiting for %v: %v %q was reported", want, got.Kind, got.URI)
		}
	}
}

func tool(name string) mcp.Tool { return mcp.Tool{Name: name, Description: "Is new."} }

func nothing(context.Context, struct{}) (string, error) { return "", nil }

func TestWatchReportsWhatChanges(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Tools: true, Prompts: true, Resources: true, URIs: []string{"note://a", "note://b"}})
		w.until(client.Change{Kind: client.ToolsChanged, Resync: true})
		w.until(client.Change{Kind: client.PromptsChanged, Resync: true})
		w.until(client.Change{Kind: client.ResourcesChanged, Resync: true})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://b", Resync: true})

		server.AddTool(s, tool("new"), nothing)
		w.until(client.Change{Kind: client.ToolsChanged})
		s.RemoveTool("new")
		w.until(client.Change{Kind: client.ToolsChanged})
		s.RemovePrompt("greet")
		w.until(client.Change{Kind: client.PromptsChanged})
		s.RemoveResource("note://b")
		w.until(client.Change{Kind: client.ResourcesChanged})
		s.ResourceUpdated("note://c")
		s.ResourceUpdated("note://a")
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
		s.ResourceUpdated("note://b")
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://b"})
	})
}

func TestWatchReportsNothingElse(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Prompts: true, URIs: []string{"note://a"}})
		w.until(client.Change{Kind: client.PromptsChanged, Resync: true})
		server.AddTool(s, tool("new"), nothing)
		s.RemoveResource("note://b")
		s.ResourceUpdated("note://b")
		s.RemovePrompt("greet")
		w.until(client.Change{Kind: client.PromptsChanged})
		s.ResourceUpdated("note://a")
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
	})
}

// Two watches of one client do not take each other's changes, nor does the end of one
// end what the other is subscribed to.
func TestWatchesAreIndependent(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		a := watch(t, c, client.WatchFilter{URIs: []string{"note://a", "note://b"}})
		a.until(client.Change{Kind: client.ResourceUpdated, URI: "note://b", Resync: true})

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"note://a"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if !change.Resync {
				break
			}
			if change.Kind == client.ResourceUpdated {
				s.ResourceUpdated("note://a")
			}
		}
		a.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
		s.ResourceUpdated("note://a")
		a.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
	})
}

func TestStormOfChangesIsFewNotifications(t *testing.T) {
	const storm = 10_000
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Tools: true})
		w.until(client.Change{Kind: client.ToolsChanged, Resync: true})
		begun := time.Now()
		for i := range storm / 2 {
			server.AddTool(s, mcp.Tool{Name: fmt.Sprint("storm", i), InputSchema: []byte(`{"type":"object"}`)}, nothing)
			s.RemoveTool(fmt.Sprint("storm", i))
		}
		server.AddTool(s, tool("last"), nothing)
		// What is seen after the last notification is what there is.
		reports, limit := 0, 0
		for seen := false; !seen; {
			w.until(client.Change{Kind: client.ToolsChanged})
			reports++
			for tool, err := range c.Tools(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				seen = seen || tool.Name == "last"
			}
			limit = 2 + int(time.Since(begun)/(50*time.Millisecond))
		}
		if reports > limit {
			t.Errorf("%d changes were %d notifications, more than %d", storm, reports, limit)
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for change, err := range c.Watch(ctx, client.WatchFilter{}) {
			if err != nil {
				t.Errorf("%+v, %v", change, err)
			}
			cancel()
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("after the watch: %v", err)
		}
	})
}

func TestWatchEndsWithItsClient(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		var last error
		for _, err := range c.Watch(t.Context(), client.WatchFilter{}) {
			if last = err; err == nil {
				c.Close()
			}
		}
		if !errors.Is(last, client.ErrClientClosed) {
			t.Errorf("the watch ended with %v", last)
		}
	})
}

func TestWatchOfWhatIsNotOfferedFails(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for _, err := range c.Watch(t.Context(), client.WatchFilter{Prompts: true, URIs: []string{"note://a"}}) {
			if !errors.Is(err, client.ErrWatchUnsupported) {
				t.Errorf("the watch ended with %v", err)
			}
		}
	})
}

// Shutdown does not wait for watches, which end by themselves.
func TestShutdownEndsWatches(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Tools: true})
		w.until(client.Change{Kind: client.ToolsChanged, Resync: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown with a watch open: %v", err)
		}
		if c.Revision().Modern() {
			await(t, mcp.NotificationCancelled, false)
		}
	})
}

func TestManyURIsAreRefused(t *testing.T) {
	var s *server.Server
	c := mcptest.Dial(t, changing(&s)())
	uris := make([]string, 100_000)
	for i := range uris {
		uris[i] = fmt.Sprint("note://", i)
	}
	for _, err := range c.Watch(t.Context(), client.WatchFilter{URIs: uris}) {
		if err == nil {
			t.Fatal("100,000 resources are watched")
		}
	}
}

// A server that is restarted has forgotten sessions and subscriptions. Watches begin
// anew, and are told that something may have changed.
func TestWatchSurvivesTheRestartOfAServer(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			var s *server.Server
			var serving atomic.Pointer[server.Server]
			serving.Store(changing(&s)())
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serving.Load().ServeHTTP(w, r) }))
			defer endpoint.Close()
			d := client.Dialer{Revision: r, Logger: slog.New(slog.DiscardHandler)}
			c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			w := watch(t, c, client.WatchFilter{Tools: true, URIs: []string{"note://a"}})
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
			s.ResourceUpdated("note://a")
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})

			before := s
			serving.Store(changing(&s)())
			if err := before.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
			s.ResourceUpdated("note://a")
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
			c.Close()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
