package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// listing is a server without lists for the operator, and with a tool for each user.
type listing struct {
	host     *Host
	server   *server.Server
	requests atomic.Int32 // that list tools
	broken   atomic.Bool
	unlisted atomic.Bool  // whether requests for the tools fail
	rejected atomic.Int32 // of these requests
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
	if status := h.Status()[0]; status.State != CallersOnly || !status.State.isUsable() ||
		status.State.String() != "callers only" || len(status.Tools) != 0 {
		t.Fatalf("the server is %v: %v", status.State, status.Tools)
	}
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
		if b, _ := l.host.Client("up").Status(bob, time.Hour); a.Version != b.Version ||
			len(l.host.find("up").callerLists.offers) != 1 {
			t.Errorf("the same lists have the versions %d and %d", a.Version, b.Version)
		}
	}
	l.broken.Store(true)
	want("broken", get(ada, 0), "ready 4 up__two incomplete")
	l.broken.Store(false)
	if _, err := l.host.Client("up").Status(t.Context(), 0); !errors.Is(err, ErrAnonymousCaller) {
		t.Errorf("without a caller: %v", err)
	}
	if result, err := l.host.Call(ada, "up__two", nil); err != nil || result.IsError {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := l.host.Call(ada, "up__one", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a tool that is not listed: %v", err)
	}
}

// Lists that change while they are received are requested again at their next use.
func TestListsThatAreOutdatedWhileTheyAreReceivedAreNotKept(t *testing.T) {
	l := newListing(t, &Host{})
	l.listed.Store(new(func() {
		l.listed.Store(nil)
		if !l.host.Outdate(func(who principal.Principal) bool { return who.Subject() == "ada" }) {
			t.Error("the lists of the caller are not known")
		}
	}))
	for i, want := range []int32{1, 2, 2} {
		if _, err := l.host.Client("up").Status(asUser(t, "ada"), time.Hour); err != nil || l.requests.Load() != want {
			t.Errorf("request %d: %d requests to the server, want %d; %v", i+1, l.requests.Load(), want, err)
		}
	}
	if l.host.Outdate(func(who principal.Principal) bool { return who.Subject() == "bob" }) {
		t.Error("the lists of another caller are known")
	}
}

func TestCallersWhoNeedALoginHaveNoLists(t *testing.T) {
	l := newListing(t, &Host{})
	l.login.Store(false)
	if _, err := l.host.Client("up").Status(asUser(t, "ada"), time.Hour); !errors.As(err, new(*call.URLRequiredError)) {
		t.Error(err)
	}
	l.login.Store(true)
	if status, err := l.host.Client("up").Status(asUser(t, "ada"), time.Hour); err != nil || len(status.Tools) != 1 {
		t.Errorf("after the login: %v, %v", status.Tools, err)
	}
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
	if _, err := l.host.Client("up").CallTool(ada, "one", nil); err != nil {
		t.Error(err)
	}
	if _, err := l.host.Client("up").CallTool(ada, "absent", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a tool that was not reviewed: %v", err)
	}
	rejects.Store(true)
	l.host.ReviewAgain()
	if status, err := l.host.Client("up").Status(ada, time.Hour); err != nil || len(status.Tools) != 0 ||
		!errors.As(status.Incomplete, new(*withheldError)) {
		t.Errorf("%v, %v", status.Incomplete, err)
	}
	if _, err := l.host.Client("up").CallTool(ada, "one", nil); !errors.As(err, new(*DeniedError)) {
		t.Errorf("a tool that is withheld: %v", err)
	}
	rejects.Store(false)
	l.host.ReviewAgain()
	config := l.host.Servers[0]
	config.Tools = Selection{Rename: map[string]string{"one": "uno"}}
	must.Do(t, l.host.SetServers([]ServerConfig{config}))
	if status, err := l.host.Client("up").Status(ada, time.Hour); err != nil || len(status.Tools) != 1 ||
		status.Tools[0].Name != "up__uno" {
		t.Errorf("%+v, %v", status.Tools, err)
	}
}

func TestListsOfCallersAreBounded(t *testing.T) {
	l := &callerLists{}
	for i := range maxCallerLists + 10 {
		e := l.entry(listKey{scopes: fmt.Sprint(i)})
		o := &callerOffer{digest: [32]byte{byte(i), byte(i >> 8)}}
		l.mu.Lock()
		l.offers[o.digest] = o
		l.replace(e, o)
		l.mu.Unlock()
	}
	if len(l.byCaller) != maxCallerLists || l.order.Len() != maxCallerLists || len(l.offers) != maxCallerLists {
		t.Errorf("%d callers, %d lists", len(l.byCaller), len(l.offers))
	}
	if l.byCaller[listKey{scopes: "5"}] != nil || l.byCaller[listKey{scopes: "200"}] == nil {
		t.Error("the caller that was not used for the longest time was not removed")
	}
}

// An offer ends with the last caller that has it, also if the entry of another one was removed during its request.
func TestListsOfCallersEndWithTheirEntries(t *testing.T) {
	l := &callerLists{}
	first, removed := l.entry(listKey{scopes: "first"}), l.entry(listKey{scopes: "removed"})
	keep := func(e *callerEntry) *callerOffer {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.keep(e, new(callerOffer))
	}
	fill := func(name string) {
		for i := range maxCallerLists {
			l.entry(listKey{scopes: fmt.Sprint(name, i)})
		}
	}
	keep(first)
	fill("other")
	first = l.entry(listKey{scopes: "first"})
	must.Equal(t, len(l.offers), 0)
	shared := keep(first)
	must.CheckEqual(t, keep(removed), shared)
	fill("more")
	if len(l.offers) != 0 || shared.callers != 0 {
		t.Errorf("%d offers without entries, %d callers", len(l.offers), shared.callers)
	}
}

// A caller whose request ends does not end that of another one for the same lists.
func TestRequestForListsThatEndsLeavesTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &callerLists{}
		s := &supervisor{}
		ada := asUser(t, "ada")
		e := l.entry(listKeyOf(callerOf(ada)))
		e.turn <- struct{}{} // a request is in flight
		ctx, cancel := context.WithTimeout(ada, time.Second)
		defer cancel()
		if _, _, err := l.get(ctx, s, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		done := make(chan error)
		go func() {
			_, _, err := l.get(ada, s, time.Minute)
			done <- err
		}()
		synctest.Wait()
		l.mu.Lock()
		l.replace(e, &callerOffer{})
		e.at = time.Now()
		l.mu.Unlock()
		<-e.turn
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Search, Describe and ToolsVersion are about the tools of the caller, as far as they are known.
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
	if versions[0] == versions[1] || versions[1] == versions[2] || versions[0] != l.host.ToolsVersion(ada) {
		t.Errorf("versions %q", versions)
	}
	must.Get(l.host.Client("up").Status(ada, 0))(t)
	if got := find(ada, "two"); got != "up__two" || l.host.ToolsVersion(ada) != l.host.ToolsVersion(bob) {
		t.Errorf("found %s after the change, with the versions %q and %q", got, l.host.ToolsVersion(ada),
			l.host.ToolsVersion(bob))
	}
}

// WatchCaller reports changes for its caller, also if the caller has to log in first, and a caller beyond the limit
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
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	l.login.Store(false)
	hers, end := watch("ada")
	defer end()
	l.login.Store(true)
	must.Get(l.host.Client("up").Status(asUser(t, "ada"), 0))(t)
	for range maxListWatches - 1 {
		s.listWatches <- struct{}{} // other callers
	}
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
			if n > 40 {
				t.Fatal("no change is reported")
			}
		}
	}
	await(hers)
	his, endHis := watch("bob")
	defer endHis()
	must.Get(l.host.Client("up").Status(asUser(t, "bob"), 0))(t)
	await(hers)
	if len(his) > 0 {
		t.Error("a caller beyond the limit is watched")
	}
	<-s.listWatches
	await(his)
	must.CheckIs(t, l.host.Client("up").WatchLists(t.Context(), nil), ErrAnonymousCaller)
	must.CheckIs(t, l.host.Client("absent").WatchLists(asUser(t, "ada"), nil), ErrUnknown)
}

// A watch that cannot request the changed lists tries again, although the server reports no other change.
func TestWatchOfACallerReportsAChangeWhoseListsCouldNotBeRequested(t *testing.T) {
	l := newListing(t, &Host{})
	ctx := asUser(t, "ada")
	must.Get(l.host.Client("up").Status(ctx, 0))(t)
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	watching, cancel := context.WithCancel(ctx)
	go func() { ended <- l.host.Client("up").WatchLists(watching, func() { changed <- struct{}{} }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
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
	lists := &l.host.find("up").callerLists
	turn := lists.entry(lists.keyOf(ctx)).turn
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
