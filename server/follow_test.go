package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// diary records the actions of followers in order.
type diary struct {
	mu      sync.Mutex
	entries []string
	written chan struct{}
}

func newDiary() *diary { return &diary{written: make(chan struct{}, 100)} }

func (d *diary) write(what string) {
	d.mu.Lock()
	d.entries = append(d.entries, what)
	d.mu.Unlock()
	d.written <- struct{}{}
}

// follow is a follower that records its begin and its end.
func (d *diary) follow(ctx context.Context, uri string) {
	d.write("+" + uri)
	<-ctx.Done()
	d.write("-" + uri)
}

// expect waits for entries, in any order.
func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	for range want {
		select {
		case <-d.written:
		case <-time.After(10 * time.Second):
			d.mu.Lock()
			defer d.mu.Unlock()
			t.Fatalf("so far %q, waiting for %q", d.entries, want)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	got := slices.Clone(d.entries)
	slices.Sort(got)
	slices.Sort(want)
	must.That(t, slices.Equal(got, want), "%q, want %q", got, want)
	d.entries = nil
}

// following watches resources until stop is called.
func following(t *testing.T, c *client.Client, uris ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := true
		for _, err := range c.Watch(ctx, client.WatchFilter{URIs: uris}) {
			must.Check(t, err)
			if first {
				close(began)
				first = false
			}
		}
	}()
	<-began
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

func followed(d *diary) *server.Server {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a", server.WhileSubscribed(d.follow))
	server.AddStatic(s, mcp.Resource{URI: "note://quiet", Name: "quiet"}, "q")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "log://{name}", Name: "log"},
		func(_ context.Context, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return in.Name, nil
		}, server.WhileSubscribed(d.follow))
	return s
}

func TestAResourceIsFollowedOnceWhileItHasSubscribers(t *testing.T) {
	d := newDiary()
	s := followed(d)
	one, two := mcptest.Dial(t, s), mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	stopOne := following(t, one, "note://a", "note://quiet", "note://unknown")
	d.expect(t, "+note://a")
	stopTwo := following(t, two, "note://a", "log://x")
	d.expect(t, "+log://x")
	stopOne()
	stopTwo()
	d.expect(t, "-log://x", "-note://a")
	stop := following(t, one, "note://a")
	d.expect(t, "+note://a")
	stop()
	d.expect(t, "-note://a")
}

func TestAReplacedResourceIsFollowedAgain(t *testing.T) {
	d := newDiary()
	s := followed(d)
	defer following(t, mcptest.Dial(t, s), "note://a", "note://later")()
	d.expect(t, "+note://a")
	s.RemoveResource("note://a")
	d.expect(t, "-note://a")
	server.AddStatic(s, mcp.Resource{URI: "note://later", Name: "later"}, "l", server.WhileSubscribed(d.follow))
	d.expect(t, "+note://later")
}

func TestAShutdownEndsFollowers(t *testing.T) {
	d := newDiary()
	s := followed(d)
	c := mcptest.Dial(t, s)
	go func() {
		for range c.Watch(t.Context(), client.WatchFilter{URIs: []string{"note://a"}}) {
		}
	}()
	d.expect(t, "+note://a")
	must.Do(t, s.Shutdown(t.Context()))
	d.expect(t, "-note://a") // it was written before Shutdown returned
}

func TestAShutdownDoesNotWaitForeverForFollowers(t *testing.T) {
	release := make(chan struct{})
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	began := make(chan struct{})
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a",
		server.WhileSubscribed(func(context.Context, string) {
			close(began)
			<-release
		}))
	c := mcptest.Dial(t, s)
	go func() {
		for range c.Watch(t.Context(), client.WatchFilter{URIs: []string{"note://a"}}) {
		}
	}()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	must.CheckIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
	close(release)
	must.Check(t, s.Shutdown(t.Context()))
}

func TestAPanicInAFollowerIsContained(t *testing.T) {
	var log syncbuffer.Buffer
	s := &server.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a",
		server.WhileSubscribed(func(context.Context, string) { panic("oh") }))
	c := mcptest.Dial(t, s)
	defer following(t, c, "note://a")()
	eventually(t, func() bool { return strings.Contains(log.String(), "panic in the function passed to WhileSubscribed") })
	must.Check(t, must.Err(c.ReadResource(t.Context(), "note://a")))
}

// Rule R7: a caller cannot make the server follow a hidden resource, not even by subscribing first.
func TestAHiddenResourceIsFollowedForItsCallers(t *testing.T) {
	d := newDiary()
	s := followed(d)
	ada := person(t, "ada")
	server.AddStatic(s, mcp.Resource{URI: "note://secret", Name: "secret"}, "s", server.WhileSubscribed(d.follow),
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who == ada }))
	listen := request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["note://secret","note://a"]}`)
	hers, his := connectLineAs(t, s, ada), connectLineAs(t, s, person(t, "bob"))
	his.Send(listen)
	d.expect(t, "+note://a")
	hers.Send(listen)
	d.expect(t, "+note://secret")
	hers.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-note://secret")
	his.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-note://a")
}

// BeforeSubscribe of an entry decides by the URI and the caller, and that of the Server about other URIs.
func TestBeforeSubscribeDecidesAboutEachResource(t *testing.T) {
	s, ada := quiet(), person(t, "ada")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "note://{owner}", Name: "notes"},
		func(context.Context, map[string]string) (string, error) { return "", nil },
		server.BeforeSubscribe(func(ctx context.Context, uri string) error {
			if server.PrincipalOf(ctx) == ada && uri == "note://ada" {
				return nil
			}
			return errors.New("not yours")
		}))
	s.BeforeSubscribe = func(_ context.Context, uri string) error {
		if uri == "log://today" {
			return nil
		}
		return errors.New("unknown")
	}
	uris := []string{"note://ada", "note://bob", "log://today", "log://tomorrow"}
	for _, test := range []struct {
		who  principal.Principal
		want []string
	}{{ada, []string{"note://ada", "log://today"}}, {person(t, "bob"), []string{"log://today"}}} {
		l := connectLineAs(t, s, test.who)
		l.Send(request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`))
		acknowledged := l.Receive()
		for _, uri := range uris {
			must.CheckEqual(t, strings.Contains(acknowledged, uri), slices.Contains(test.want, uri), uri, acknowledged)
		}
	}
}

// UpdatesFor decides again for each update.
func TestUpdatesForLeavesOutSubscribers(t *testing.T) {
	s, ada, bob := quiet(), person(t, "ada"), person(t, "bob")
	var everyone atomic.Bool
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "",
		server.UpdatesFor(func(caller principal.Principal, uri string) bool {
			return everyone.Load() || caller == ada && uri == "note://a"
		}))
	server.AddStatic(s, mcp.Resource{URI: "note://b", Name: "b"}, "")
	adas, bobs := connectLineAs(t, s, ada), connectLineAs(t, s, bob)
	for _, l := range []*line{adas, bobs} {
		l.Send(request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["note://a","note://b"]}`))
		must.CheckContains(t, l.Receive(), "note://a")
	}
	s.ResourceUpdated("note://a")
	must.CheckContains(t, adas.Receive(), "note://a")
	s.ResourceUpdated("note://b")
	must.CheckContains(t, adas.Receive(), "note://b")
	must.CheckContains(t, bobs.Receive(), "note://b") // and nothing before it
	everyone.Store(true)
	s.ResourceUpdated("note://a")
	must.CheckContains(t, adas.Receive(), "note://a")
	must.CheckContains(t, bobs.Receive(), "note://a")
}
