package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

type header string

func (h header) Authorize(r *http.Request, _ string) error {
	if h == "" {
		return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: "https://example.com/login", Message: "Log in"}}}
	}
	r.Header.Set("X-User", string(h))
	return nil
}

func (header) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// listing is a server that lists nothing for the operator, and one tool for each user.
type listing struct {
	host     *Host
	server   *server.Server
	requests atomic.Int32 // number of requests that list tools
	broken   atomic.Bool
	unlisted atomic.Bool  // whether requests for the tools fail
	rejected atomic.Int32 // how many of these requests were rejected
	login    atomic.Bool  // whether users are logged in
	tool     atomic.Value
	listed   atomic.Pointer[func()] // called while the tools are listed
}

func newListing(t *testing.T, h *Host) *listing {
	s := &server.Server{Name: "up", Version: "1"}
	l := &listing{host: h, server: s}
	l.login.Store(true)
	l.tool.Store("one")
	s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
		if call.From(ctx).Method() == mcp.MethodListTools {
			l.requests.Add(1)
			if listed := l.listed.Load(); listed != nil {
				(*listed)()
			}
		}
		own := new(server.Catalog)
		server.AddTool(own, mcp.Tool{Name: l.tool.Load().(string)}, func(context.Context, struct{}) (string, error) { return "done", nil })
		return []*server.Catalog{own}, nil
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case l.broken.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case l.unlisted.Load() && r.Header.Get("Mcp-Method") == mcp.MethodListTools:
			l.rejected.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("X-User") == "":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(up.Close)
	h.Servers = []ServerConfig{{Name: "up", Target: client.URL(up.URL),
		CallerAuth: NewCallerAuth(func(who principal.Principal) (header, error) {
			if !l.login.Load() {
				return "", nil
			}
			return header(who.Subject()), nil
		})}}
	must.Do(t, h.Start())
	t.Cleanup(func() { h.Close() })
	must.Do(t, h.WaitReady(t.Context(), "up"))
	status := h.Status()[0]
	must.That(t, status.State == CallersOnly && status.State.isUsable() && status.State.String() == "callers only" &&
		len(status.Tools) == 0, "the server is %v: %v", status.State, status.Tools)
	return l
}

func asUser(t *testing.T, name string, scopes ...string) context.Context {
	who := must.Get(principal.New("https://as.example", name, ""))(t)
	return auth.NewContext(t.Context(), &auth.Info{Principal: who, Scopes: scopes})
}

func TestListsOfACallerAreUpdated(t *testing.T) {
	l := newListing(t, &Host{})
	get := func(ctx context.Context, maxAge time.Duration) string {
		status, err := l.host.Client("up").Status(ctx, maxAge)
		if err != nil {
			return err.Error()
		}
		text := fmt.Sprint(status.State, " ", l.requests.Load())
		for _, tool := range status.Tools {
			text += " " + tool.Name
		}
		if status.Incomplete != nil {
			text += " incomplete"
		}
		return text
	}
	want := func(what, got, want string) {
		t.Helper()
		must.CheckEqual(t, got, want, what)
	}
	ada, bob := asUser(t, "ada"), asUser(t, "bob")
	want("first", get(ada, time.Hour), "ready 1 up__one")
	want("again", get(ada, time.Hour), "ready 1 up__one")
	l.tool.Store("two")
	want("another caller", get(bob, time.Hour), "ready 2 up__two")
	want("other scopes", get(asUser(t, "ada", "write"), time.Hour), "ready 3 up__two")
	want("known", get(ada, time.Hour), "ready 3 up__one")
	want("too old", get(ada, 0), "ready 4 up__two")
	if a, _ := l.host.Client("up").Status(ada, time.Hour); true {
		b, _ := l.host.Client("up").Status(bob, time.Hour)
		must.CheckThat(t, a.Version == b.Version, "the same lists have the versions %d and %d", a.Version, b.Version)
	}
	l.broken.Store(true)
	want("broken", get(ada, 0), "ready 4 up__two incomplete")
	l.broken.Store(false)
	_, err := l.host.Client("up").Status(t.Context(), 0)
	must.CheckThat(t, errors.Is(err, ErrAnonymousCaller), "without a caller: %v", err)
	result, err := l.host.Call(ada, "up__two", nil)
	must.CheckThat(t, err == nil && !result.IsError, "%+v, %v", result, err)
	_, err = l.host.Call(ada, "up__one", nil)
	must.CheckThat(t, errors.Is(err, ErrUnknown), "a tool that is not listed: %v", err)
}

// A session sees the lists of its own connection: neither another session of the user nor another user sees them. A
// request without a token, such as a subscription, sees the user's latest lists.
func TestSessionsHaveTheirOwnLists(t *testing.T) {
	l := newListing(t, &Host{})
	of := func(name, session string) context.Context {
		ctx := asUser(t, name)
		return WithCaller(ctx, &Caller{Session: session, Auth: callerOf(ctx)})
	}
	withoutToken := func(name string) context.Context {
		who := &auth.Info{Principal: callerOf(asUser(t, name)).Principal}
		return WithCaller(t.Context(), &Caller{Auth: who})
	}
	for i, c := range []struct {
		tool string // the tool that the server lists now
		ctx  context.Context
		want string
	}{
		{"one", of("ada", "1"), "up__one"}, {"two", of("ada", "2"), "up__two"}, {"three", of("bob", "1"), "up__three"},
		{"four", of("ada", "1"), "up__one"}, {"four", withoutToken("ada"), "up__one"},
		{"four", of("ada", "2"), "up__two"}, {"four", withoutToken("ada"), "up__two"},
		{"four", withoutToken("bob"), "up__three"}, {"four", withoutToken("eve"), "up__four"},
	} {
		l.tool.Store(c.tool)
		status := must.Get(l.host.Client("up").Status(c.ctx, time.Hour))(t)
		must.CheckEqual(t, status.Tools[0].Name, c.want, i)
	}
	must.CheckEqual(t, l.requests.Load(), 4)
}

// Lists that change while they are received, or that must be reviewed again, are requested again when they are
// next used.
func TestListsThatAreOutdatedWhileTheyAreReceivedAreNotKept(t *testing.T) {
	l := newListing(t, &Host{Review: func(Definition) error { return nil }})
	for i, during := range []func(){
		func() {
			must.CheckThat(t, l.host.Outdate(func(who principal.Principal) bool { return who.Subject() == "ada" }),
				"the lists of the caller are not known")
		},
		l.host.ReviewAgain,
	} {
		ctx := asUser(t, "ada", fmt.Sprint(i))
		l.listed.Store(new(func() {
			l.listed.Store(nil)
			during()
		}))
		l.requests.Store(0)
		for n, want := range []int32{1, 2, 2} {
			if _, err := l.host.Client("up").Status(ctx, time.Hour); err != nil || l.requests.Load() != want {
				t.Errorf("request %d: %d requests to the server, want %d; %v", n+1, l.requests.Load(), want, err)
			}
		}
	}
	must.CheckThat(t, !l.host.Outdate(func(who principal.Principal) bool { return who.Subject() == "bob" }),
		"the lists of another caller are known")
}

func TestCallersWhoNeedALoginHaveNoLists(t *testing.T) {
	l := newListing(t, &Host{})
	l.login.Store(false)
	_, err := l.host.Client("up").Status(asUser(t, "ada"), time.Hour)
	must.CheckThat(t, errors.As(err, new(*call.URLRequiredError)), "%v", err)
	l.login.Store(true)
	status, err := l.host.Client("up").Status(asUser(t, "ada"), time.Hour)
	must.CheckThat(t, err == nil && len(status.Tools) == 1, "after the login: %v, %v", status.Tools, err)
}

func TestReviewAndSelectionConcernTheListsOfCallers(t *testing.T) {
	var rejects atomic.Bool
	l := newListing(t, &Host{Review: func(d Definition) error {
		if rejects.Load() && d.Name == "one" {
			return errors.New("not accepted")
		}
		return nil
	}})
	ada := asUser(t, "ada")
	must.Check(t, must.Err(l.host.Client("up").CallTool(ada, "one", nil)))
	_, err := l.host.Client("up").CallTool(ada, "absent", nil)
	must.CheckThat(t, errors.Is(err, ErrUnknown), "a tool that was not reviewed: %v", err)
	rejects.Store(true)
	l.host.ReviewAgain()
	status, err := l.host.Client("up").Status(ada, time.Hour)
	must.CheckThat(t, err == nil && len(status.Tools) == 0 && errors.As(status.Incomplete, new(*withheldError)),
		"%v, %v", status.Incomplete, err)
	_, err = l.host.Client("up").CallTool(ada, "one", nil)
	must.CheckThat(t, errors.As(err, new(*DeniedError)), "a tool that is withheld: %v", err)
	rejects.Store(false)
	l.host.ReviewAgain()
	config := l.host.Servers[0]
	config.Tools = Selection{Rename: map[string]string{"one": "uno"}}
	must.Do(t, l.host.SetServers([]ServerConfig{config}))
	status, err = l.host.Client("up").Status(ada, time.Hour)
	must.CheckThat(t, err == nil && len(status.Tools) == 1 && status.Tools[0].Name == "up__uno",
		"%+v, %v", status.Tools, err)
}

// A connection keeps the lists for a few tokens with different scopes, and lists end with their connection.
func TestListsOfCallersAreBounded(t *testing.T) {
	l := newListing(t, &Host{})
	pool := &l.host.find("up").pool
	for i := range maxCallerLists + 1 {
		must.Get(l.host.Client("up").Status(asUser(t, "ada", fmt.Sprint(i)), time.Hour))(t)
	}
	for user, lists := range pool.allLists() {
		if user.Subject() != "ada" || lists.scopes != fmt.Sprint(maxCallerLists) {
			t.Errorf("the lists of %v with the scopes %q are kept", user, lists.scopes)
		}
	}
	pool.endUnused()
	requests := l.requests.Load()
	must.Get(l.host.Client("up").Status(asUser(t, "ada", fmt.Sprint(maxCallerLists)), time.Hour))(t)
	must.CheckEqual(t, l.requests.Load(), requests+1)
}

// If a caller gives up on a request for lists, another caller who waits for the same lists still receives
// them. They are requested once.
func TestRequestForListsThatEndsLeavesTheNextOne(t *testing.T) {
	l := newListing(t, &Host{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	l.listed.Store(new(func() {
		l.listed.Store(nil)
		close(begun)
		<-goOn
	}))
	ada, done := asUser(t, "ada"), make(chan error, 2)
	get := func() {
		_, err := l.host.Client("up").Status(ada, time.Hour)
		done <- err
	}
	go get()
	<-begun
	ctx, cancel := context.WithCancelCause(ada)
	cancel(errClosed)
	must.CheckIs(t, must.Err(l.host.Client("up").Status(ctx, time.Hour)), errClosed)
	go get()
	on := l.host.find("up").pool.byKey[audience{user: callerOf(ada).Principal}]
	for inUse := 0; inUse < 2; runtime.Gosched() { // both requests wait
		l.host.find("up").pool.mu.Lock()
		inUse = on.uses
		l.host.find("up").pool.mu.Unlock()
	}
	close(goOn)
	must.Do(t, <-done)
	must.Do(t, <-done)
	must.CheckEqual(t, l.requests.Load(), 1)
}

// Search, Describe and ToolsVersion use the tools of the caller, as far as known.
func TestSearchFindsTheToolsOfTheCaller(t *testing.T) {
	l := newListing(t, &Host{})
	ada, bob := asUser(t, "ada"), asUser(t, "bob")
	find := func(ctx context.Context, query string) string {
		return namesOf(l.host.Search(ctx, query, 0))
	}
	must.CheckEqual(t, find(ada, ""), "")
	must.Get(l.host.Client("up").Status(ada, time.Hour))(t)
	l.tool.Store("two")
	must.Get(l.host.Client("up").Status(bob, time.Hour))(t)
	for name, ctx := range map[string]context.Context{"one": ada, "two": bob} {
		must.CheckEqual(t, find(ctx, "one or two")+" "+find(ctx, ""), "up__"+name+" up__"+name, name)
	}
	must.CheckEqual(t, find(t.Context(), ""), "")
	versions := []string{l.host.ToolsVersion(ada), l.host.ToolsVersion(bob), l.host.ToolsVersion(t.Context())}
	must.CheckThat(t, versions[0] != versions[1] && versions[1] != versions[2] &&
		versions[0] == l.host.ToolsVersion(ada), "versions %q", versions)
	must.Get(l.host.Client("up").Status(ada, 0))(t)
	if got := find(ada, "two"); got != "up__two" || l.host.ToolsVersion(ada) != l.host.ToolsVersion(bob) {
		t.Errorf("found %s after the change, with the versions %q and %q", got, l.host.ToolsVersion(ada),
			l.host.ToolsVersion(bob))
	}
}

// WatchCaller reports changes for its caller, even if the caller has to log in first. A caller beyond the limit
// waits.
func TestListsOfCallersAreWatched(t *testing.T) {
	l := newListing(t, &Host{})
	s := l.host.find("up")
	watch := func(name string) (changed chan struct{}, end func()) {
		changed, ended := make(chan struct{}, 100), make(chan error, 1)
		ctx, cancel := context.WithCancel(asUser(t, name))
		go func() { ended <- l.host.Client("up").WatchLists(ctx, func() { changed <- struct{}{} }) }()
		return changed, func() {
			cancel()
			must.Check(t, <-ended)
		}
	}
	l.login.Store(false)
	hers, end := watch("ada")
	l.login.Store(true)
	must.Get(l.host.Client("up").Status(asUser(t, "ada"), 0))(t)
	s.pool.mu.Lock()
	s.pool.max = 2 // one connection for watches
	s.pool.mu.Unlock()
	await := func(changed chan struct{}) {
		t.Helper()
		for n := 0; ; n++ { // until the watch has begun
			l.tool.Store(fmt.Sprint("tool", n))
			l.server.RemoveTool("shared")
			server.AddTool(l.server, mcp.Tool{Name: "shared"},
				func(context.Context, struct{}) (string, error) { return "", nil })
			select {
			case <-changed:
				return
			case <-time.After(500 * time.Millisecond):
			}
			must.That(t, n <= 40, "no change is reported")
		}
	}
	await(hers)
	his, endHis := watch("bob")
	defer endHis()
	must.Get(l.host.Client("up").Status(asUser(t, "bob"), 0))(t)
	await(hers)
	must.CheckThat(t, len(his) == 0, "a caller beyond the limit is watched")
	end()
	await(his)
	must.CheckIs(t, l.host.Client("up").WatchLists(t.Context(), nil), ErrAnonymousCaller)
	must.CheckIs(t, l.host.Client("absent").WatchLists(asUser(t, "ada"), nil), ErrUnknown)
}

// Subscriptions keep the connections of their users in use. Half of the connections remain for requests, including
// requests of other users.
func TestSubscriptionsLeaveConnectionsForRequests(t *testing.T) {
	l := newListing(t, &Host{})
	server.AddStatic(l.server, mcp.Resource{URI: "note://a", Name: "a"}, "text")
	pool := &l.host.find("up").pool
	pool.max = 4
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 4)
	for _, name := range []string{"ada", "bob", "cem", "dan"} {
		go func() {
			user := auth.NewContext(ctx, auth.FromContext(asUser(t, name)))
			ended <- l.host.Client("up").Subscribe(user, "note://a", func() {})
		}()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for subscribed := 0; subscribed+len(ended) < 4; {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%d subscriptions use a connection, and %d have failed", subscribed, len(ended))
		}
		subscribed = 0
		pool.mu.Lock()
		for _, c := range pool.byKey {
			if c.uses > 0 {
				subscribed++
			}
		}
		pool.mu.Unlock()
	}
	must.Check(t, must.Err(l.host.Client("up").Status(asUser(t, "eve"), 0)))
	for range 2 {
		overload := new(call.OverloadError)
		err := must.Receive(t, ended, "a subscription beyond the limit")
		must.CheckThat(t, errors.As(err, &overload), "a subscription beyond the limit: %v", err)
	}
	var of []string
	for _, name := range []string{"ada", "bob", "cem", "dan", "eve"} {
		if l.host.Client("up").MaySubscribe(asUser(t, name), "note://a") == nil {
			of = append(of, name)
		}
	}
	must.CheckEqual(t, len(of), 2, of) // the users who already have a subscription
	cancel()
	must.Check(t, must.Receive(t, ended, "a subscription"))
	must.Check(t, must.Receive(t, ended, "a subscription"))
	must.Check(t, l.host.Client("up").MaySubscribe(asUser(t, "eve"), "note://a"))
}

// A watch that cannot request the changed lists tries again, even if the server reports no further change.
func TestWatchOfACallerReportsAChangeWhoseListsCouldNotBeRequested(t *testing.T) {
	l := newListing(t, &Host{})
	ctx := asUser(t, "ada")
	must.Get(l.host.Client("up").Status(ctx, 0))(t)
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	watching, cancel := context.WithCancel(ctx)
	go func() { ended <- l.host.Client("up").WatchLists(watching, func() { changed <- struct{}{} }) }()
	defer func() {
		cancel()
		must.Check(t, <-ended)
	}()
	timeout := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	await := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			select {
			case <-tick.C:
			case <-timeout:
				t.Fatal(what)
			}
		}
	}
	await("the watch does not begin", func() bool { return l.requests.Load() == 2 })
	turn := l.host.find("up").pool.byKey[audience{user: callerOf(ctx).Principal}].listing
	endOfRequest := func() {
		turn <- struct{}{}
		<-turn
	}
	endOfRequest()
	l.unlisted.Store(true)
	l.tool.Store("two")
	server.AddTool(l.server, mcp.Tool{Name: "shared"}, func(context.Context, struct{}) (string, error) {
		return "", nil
	})
	await("the lists are not requested", func() bool { return l.rejected.Load() > 0 })
	endOfRequest()
	l.unlisted.Store(false)
	await("the change is not reported", func() bool { return len(changed) > 0 })
}
