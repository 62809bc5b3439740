package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
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

// Listening runs once for each caller with an open stream, in sessions and in 2026-07-28.
func TestListeningRunsForCallersWithAStream(t *testing.T) {
	d := newDiary()
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	s.Declare(mcp.MethodCallTool)
	giveTo(s, person(t, "ada"))
	s.WhileListening = func(ctx context.Context) { d.follow(ctx, server.PrincipalOf(ctx).Subject()) }
	listen := request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
	ada, again := connectLineAs(t, s, person(t, "ada")), connectLineAs(t, s, person(t, "ada"))
	ada.Send(listen)
	ada.Receive()
	d.expect(t, "+ada")
	again.Send(listen)
	again.Receive()
	bob := connectLineAs(t, s, person(t, "bob"))
	bob.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
	bob.Receive()
	bob.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	d.expect(t, "+bob")
	other := connectLineAs(t, s, person(t, "eve"))
	other.Send(request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["note://a"]}`)) // no lists
	other.Receive()
	ada.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	again.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-ada")
	must.Check(t, s.Shutdown(t.Context()))
	d.expect(t, "-bob")
}

// However many callers listen, resources are followed.
func TestListeningLeavesPlacesForResources(t *testing.T) {
	d := newDiary()
	s := quiet()
	giveTo(s, person(t, "ada"))
	s.WhileListening = func(ctx context.Context) { <-ctx.Done() }
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "text", server.WhileSubscribed(d.follow))
	must.Do(t, s.Check())
	for i := range 10_000 {
		s.SubscribeAs(person(t, fmt.Sprint(i)), mcp.SubscriptionFilter{ToolsListChanged: true})
	}
	s.SubscribeAs(person(t, "ada"), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"note://a"}})
	d.expect(t, "+note://a")
	must.Check(t, s.Shutdown(t.Context()))
	d.expect(t, "-note://a")
}

func TestOtherReplicasLearnThatTheCatalogsOfACallerHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := store.NewMemory()
		ada := person(t, "ada")
		outdated := make(chan bool)
		var replicas []*server.Server
		for range 2 {
			s := &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}
			s.Declare(mcp.MethodCallTool)
			s.CatalogsOutdated = func(concerns func(principal.Principal) bool) bool {
				outdated <- concerns(ada) && !concerns(person(t, "bob"))
				return true
			}
			must.Do(t, s.Check())
			defer s.Shutdown(t.Context())
			replicas = append(replicas, s)
		}
		synctest.Wait()
		client := connectLineAs(t, replicas[0], ada)
		client.Send(request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		client.Receive()
		replicas[0].ResourceUpdated("note://a", ada) // which does not concern lists
		replicas[0].CatalogsChanged(ada)
		client.Receive()
		for range 3 { // tools, prompts and resources, at the other replica only
			must.CheckEqual(t, <-outdated, true)
		}
		client.Receive() // again, because the other replica had the previous lists
		synctest.Wait()
		select {
		case <-outdated:
			t.Error("CatalogsOutdated was called four times")
		default:
		}
	})
}

// A watch returns an error for each resource that the server does not watch, whatever the reason, and goes on with the
// others. If nothing is left, it ends at once.
func TestWatchReturnsAnErrorForEachRefusedResource(t *testing.T) {
	s := quiet()
	for uri, err := range map[string]error{"x:open": nil, "x:denied": jsonrpc.Errorf(-4711, "not for you"),
		"x:internal": errors.New("the database is down")} {
		server.AddStatic(s, mcp.Resource{URI: uri, Name: uri[2:]}, "",
			server.BeforeSubscribe(func(context.Context, string) error { return err }))
	}
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var got []string
		filter := client.WatchFilter{URIs: []string{"x:denied", "x:internal", "x:open"}}
		for change, err := range c.Watch(ctx, filter) {
			if got = append(got, fmt.Sprint(change.URI, " ", err != nil)); len(got) == 3 {
				s.ResourceUpdated("x:open")
			}
			if len(got) == 4 {
				break
			}
		}
		must.CheckEqual(t, fmt.Sprint(got), "[x:open false x:denied true x:internal true x:open false]", r)
		for _, uri := range []string{"x:denied", "x:internal"} {
			start, errs := time.Now(), 0
			for _, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{uri}}) {
				if err != nil {
					errs++
				}
			}
			must.CheckEqual(t, errs == 1 && time.Since(start) < 10*time.Second && ctx.Err() == nil, true, r, uri)
		}
		cancel()
	}
}
