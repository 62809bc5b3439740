package mcptest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// changing returns a function that returns a server with tools, a prompt and resources, and stores it in *s.
func changing(s **server.Server) func() *server.Server {
	return func() *server.Server {
		*s = newServer()
		server.AddPrompt(*s, mcp.Prompt{Name: "greet"}, func(context.Context, struct{}) (string, error) {
			return "Greet.", nil
		})
		server.AddStatic(*s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
		server.AddStatic(*s, mcp.Resource{URI: "note://b", Name: "b"}, "b")
		return *s
	}
}

// watched is a watch that a test reads change by change.
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

// until reads changes until want. Earlier changes must be resyncs or in others.
func (w *watched) until(want client.Change, others ...client.Change) {
	w.t.Helper()
	for {
		got, err, ok := w.next()
		must.That(w.t, err == nil && ok, "waiting for %v: error %v, ok %v", want, err, ok)
		if got == want {
			return
		}
		allowed := got.Resync
		for _, o := range others {
			allowed = allowed || got == o
		}
		must.That(w.t, allowed, "waiting for %v: got %v %q", want, got.Kind, got.URI)
	}
}

func tool(name string) mcp.Tool { return mcp.Tool{Name: name, Description: "A new tool."} }

func emptyHandler(context.Context, struct{}) (string, error) { return "", nil }

func TestWatchReportsChanges(t *testing.T) {
	t.Parallel()
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Tools: true, Prompts: true, Resources: true,
			URIs: []string{"note://a", "note://b"}})
		w.until(client.Change{Kind: client.ToolsChanged, Resync: true})
		w.until(client.Change{Kind: client.PromptsChanged, Resync: true})
		w.until(client.Change{Kind: client.ResourcesChanged, Resync: true})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://b", Resync: true})

		server.AddTool(s, tool("new"), emptyHandler)
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

// Each watch receives its own changes. The end of one watch does not end the subscriptions of the other.
func TestWatchesAreIndependent(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		a := watch(t, c, client.WatchFilter{URIs: []string{"note://a", "note://b"}})
		a.until(client.Change{Kind: client.ResourceUpdated, URI: "note://b", Resync: true})

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"note://a"}}) {
			must.Do(t, err)
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

func TestWatchEndsWithItsContext(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for change, err := range c.Watch(ctx, client.WatchFilter{}) {
			must.Check(t, err, change)
			cancel()
		}
		must.Check(t, c.Ping(t.Context()), "Ping after the watch")
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
		must.CheckIs(t, last, call.ErrClosed, "the watch ended")
	})
}

func TestShutdownEndsWatches(t *testing.T) {
	var s *server.Server
	everywhere(t, changing(&s), func(t *testing.T, c *client.Client) {
		w := watch(t, c, client.WatchFilter{Tools: true})
		w.until(client.Change{Kind: client.ToolsChanged, Resync: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		must.Check(t, s.Shutdown(ctx), "Shutdown with an open watch")
		if c.Revision().Modern() {
			await(t, mcp.NotificationCancelled, false)
		}
	})
}

func TestWatchRejectsTooManyURIs(t *testing.T) {
	var s *server.Server
	c := mcptest.Dial(t, changing(&s)())
	uris := make([]string, 100_000)
	for i := range uris {
		uris[i] = fmt.Sprint("note://", i)
	}
	for _, err := range c.Watch(t.Context(), client.WatchFilter{URIs: uris}) {
		must.That(t, err != nil, "Watch accepts 100,000 URIs")
	}
}

// A restarted server has lost its sessions and subscriptions. The watch subscribes again
// and reports that resources may have changed.
func TestWatchSurvivesRestartOfServer(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			var s *server.Server
			var serving atomic.Pointer[server.Server]
			serving.Store(changing(&s)())
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				serving.Load().ServeHTTP(w, r)
			}))
			defer endpoint.Close()
			d := client.Dialer{Revision: r, Logger: slog.New(slog.DiscardHandler)}
			c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
			defer c.Close()
			w := watch(t, c, client.WatchFilter{Tools: true, URIs: []string{"note://a"}})
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
			s.ResourceUpdated("note://a")
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})

			before := s
			serving.Store(changing(&s)())
			must.Do(t, before.Shutdown(t.Context()))
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
			s.ResourceUpdated("note://a")
			w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
			c.Close()
			must.Check(t, s.Shutdown(t.Context()))
		})
	}
}

// Rule T21: a call survives the loss of its connection after any of its events, and after each of them.
func TestLostConnectionLosesNoMessage(t *testing.T) {
	const reports = 3
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		events := reports // the events that others follow
		if r == mcp.V20251125 {
			events++ // the priming event
		}
		for cut := range events + 1 {
			name := fmt.Sprintf("%s/%d", r, cut+1)
			if cut == events {
				name = fmt.Sprintf("%s/each", r)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				endpoint := httptest.NewServer(newServer())
				t.Cleanup(endpoint.Close)
				wire := newCutter(t, endpoint.Listener.Addr().String(),
					func(n int) bool { return cut == events || n == cut+1 })
				d := client.Dialer{}
				mcptest.WithRevision(r)(&d)
				c := must.Get(d.Dial(t.Context(), client.URL("http://"+wire.addr)))(t)
				t.Cleanup(func() { c.Close() })
				var got []float64
				_, err := c.CallTool(t.Context(), "count", countParams{To: reports},
					client.WithProgress(func(done, _ float64, _ string) { got = append(got, done) }))
				must.CheckThat(t, err == nil && slices.Equal(got, []float64{1, 2, 3}), "progress %v, %v", got, err)
				n := wire.cuts()
				must.CheckThat(t, n != 0 && (cut >= events || n == 1), "the connection was cut %d times", n)
			})
		}
	}
}

// cutter is a TCP proxy that closes connections after selected events of responses. The events are numbered from 1.
type cutter struct {
	addr string
	to   string
	cut  func(n int) bool

	mu       sync.Mutex
	n, after int
	open     []net.Conn
	running  sync.WaitGroup
}

func newCutter(t *testing.T, to string, cut func(n int) bool) *cutter {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &cutter{addr: l.Addr().String(), to: to, cut: cut}
	c.running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", c.to)
			if err != nil {
				near.Close()
				continue
			}
			c.mu.Lock()
			c.open = append(c.open, near, far)
			c.mu.Unlock()
			c.running.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, near)
			})
			c.running.Go(func() {
				defer near.Close()
				defer far.Close()
				c.forward(near, far)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for _, conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.running.Wait()
	})
	return c
}

// forward forwards the bytes from the server until an event after which the connection is closed.
func (c *cutter) forward(near io.Writer, far io.Reader) {
	var text []byte // since the last event
	buf := make([]byte, 64<<10)
	for {
		n, err := far.Read(buf)
		text = append(text, buf[:n]...)
		for {
			end := bytes.Index(text, []byte("\n\n"))
			if end < 0 {
				break
			}
			event := text[:end+2]
			text = text[end+2:]
			if _, err := near.Write(event); err != nil || bytes.Contains(event, []byte("id: p")) && c.passed() {
				return
			}
		}
		if err != nil {
			_, _ = near.Write(text)
			return
		}
		if !bytes.Contains(text, []byte("id: p")) { // not part of an event
			if _, err := near.Write(text); err != nil {
				return
			}
			text = text[:0]
		}
	}
}

// passed counts an event and reports whether the connection is closed after it.
func (c *cutter) passed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if !c.cut(c.n) {
		return false
	}
	c.after++
	return true
}

// cuts returns the number of closed connections.
func (c *cutter) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.after
}
