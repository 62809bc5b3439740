package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// page returns the members of a response to tools/list.
func page(ttl, scope, next string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `"result":{"resultType":"complete","ttlMs":%s,"cacheScope":%q,`, ttl, scope)
	if next != "" {
		fmt.Fprintf(&b, `"nextCursor":%q,`, next)
	}
	b.WriteString(`"tools":[`)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%q,"inputSchema":{"type":"object"}}`, name)
	}
	return b.String() + "]}"
}

func note(ttl, scope, text string) string {
	return fmt.Sprintf(`"result":{"resultType":"complete","ttlMs":%s,"cacheScope":%q,"contents":[{"uri":"note://a","text":%q}]}`, ttl, scope, text)
}

// withPages returns a modern server with the given responses to tools/list.
func withPages(pages ...string) *script {
	s := modernServer()
	s.Answers["tools/list"] = pages
	return s
}

// withReads returns a modern server with the given responses to resources/read.
func withReads(notes ...string) *script {
	s := modernServer()
	s.Answers["resources/read"] = notes
	return s
}

// names lists the tools.
func names(t *testing.T, c *client.Client, options ...client.CallOption) string {
	t.Helper()
	var all []string
	for tool, err := range c.Tools(t.Context(), options...) {
		if err != nil {
			return strings.Join(append(all, err.Error()), " ")
		}
		all = append(all, tool.Name)
	}
	return strings.Join(all, " ")
}

// text reads a resource.
func text(t *testing.T, c *client.Client, uri string, options ...client.CallOption) string {
	t.Helper()
	result, err := c.ReadResource(t.Context(), uri, options...)
	if err != nil {
		return err.Error()
	}
	return result.Contents[0].Text
}

func TestFreshResultIsNotRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPages(page("60000", "private", "", "one"), page("60000", "private", "", "two"), page("60000", "private", "", "three"))
		c, _ := dial(t, s)
		for range 3 {
			if got := names(t, c); got != "one" {
				t.Fatalf("tools %s", got)
			}
		}
		time.Sleep(time.Minute - 1)
		if got := names(t, c); got != "one" {
			t.Errorf("just before ttlMs: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := names(t, c); got != "two" {
			t.Errorf("after ttlMs: %s", got)
		}
		if got := names(t, c, client.WithRefresh()); got != "three" {
			t.Errorf("with WithRefresh: %s", got)
		}
		if got := names(t, c); got != "three" {
			t.Errorf("after WithRefresh: %s", got)
		}
	})
}

// The client limits ttlMs to a day.
func TestResultIsFreshForOneDayAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withPages(page("9223372036854775807", "public", "", "one"), page("0", "public", "", "two")))
		names(t, c)
		time.Sleep(24*time.Hour - 1)
		if got := names(t, c); got != "one" {
			t.Errorf("within a day: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := names(t, c); got != "two" {
			t.Errorf("after a day: %s", got)
		}
	})
}

// Rule C1: a negative ttlMs means zero.
func TestStaleResultIsRequestedAgain(t *testing.T) {
	for _, ttl := range []string{"0", "-1", "-9223372036854775808"} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := dial(t, withPages(page(ttl, "public", "", "one"), page(ttl, "public", "", "two")))
			if got := names(t, c) + " " + names(t, c); got != "one two" {
				t.Errorf("ttlMs %s: %s", ttl, got)
			}
		})
	}
}

// Revisions with sessions have no cache hints.
func TestSessionsCacheNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/list"] = []string{page("60000", "public", "", "one"), page("60000", "public", "", "two")}
		c, _ := dial(t, s)
		if got := names(t, c) + " " + names(t, c); got != "one two" {
			t.Errorf("tools %s", got)
		}
	})
}

// Rule C1: a result is cached for its method and all parameters.
func TestCacheKeyIncludesAllParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPages(page("60000", "public", "2", "one"), page("60000", "public", "", "two"))
		s.Answers["resources/read"] = []string{note("60000", "public", "a"), note("60000", "public", "b"), note("60000", "public", "c")}
		s.Answers["prompts/list"] = []string{`"result":{"resultType":"complete","ttlMs":60000,"cacheScope":"public","prompts":[]}`}
		c, rec := dial(t, s)
		meta := client.WithMeta(mcp.Meta{"com.example/tenant": []byte(`"x"`)})
		traced := func(id string) client.CallOption {
			return client.WithMeta(mcp.Meta{mcp.MetaTraceParent: []byte(`"` + id + `"`)})
		}
		for range 2 {
			if got := names(t, c); got != "one two" {
				t.Errorf("tools %s", got)
			}
			for range c.Prompts(t.Context()) {
				t.Error("the list of prompts is not empty")
			}
			if got := text(t, c, "note://a") + text(t, c, "note://b", traced("1")) + text(t, c, "note://a", meta) + text(t, c, "note://b", traced("2")); got != "abcb" {
				t.Errorf("resources %s", got)
			}
		}
		c.Close()
		if received := rec.methods(); strings.Count(received, "/list") != 3 || strings.Count(received, "resources/read") != 3 {
			t.Errorf("the server received %s", received)
		}
	})
}

// Rule C1: a result that depends on answers to input requests is not cached.
func TestResultsAfterInputRequestsAreNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := `"result":{"resultType":"input_required","ttlMs":60000,"cacheScope":"public","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s"}`
		second := `"result":{"resultType":"input_required","ttlMs":60000,"requestState":"t"}`
		to, _ := target(withReads(first, note("60000", "public", "one"), second, note("60000", "public", "two"), note("60000", "public", "three")))
		d := quiet()
		d.Roots = noRoots
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, want := range []string{"one", "two", "three", "three"} {
			if got := text(t, c, "note://a"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestCallerMayModifyCachedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withPages(page("60000", "public", "", "one")))
		for range 2 {
			for tool, err := range c.Tools(t.Context()) {
				if err != nil || string(tool.InputSchema) != `{"type":"object"}` {
					t.Errorf("%+v, %v", tool, err)
				}
				clear(tool.InputSchema)
				tool.Name = "changed"
			}
		}
		if got := names(t, c); got != "one" {
			t.Errorf("tools %s", got)
		}
	})
}

// The server may have changed after a reconnect.
func TestReconnectDropsCachedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting := withPages(page("60000", "public", "", "one"))
		exiting.Answers["tools/call"] = []string{"!close"}
		c, _ := dial(t, exiting, withPages(page("60000", "public", "", "two")))
		before := names(t, c)
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
			t.Error(err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if after := names(t, c); before != "one" || after != "two" {
			t.Errorf("before %s, after %s", before, after)
		}
	})
}

// The cursor in a cached page may have expired.
func TestExpiredCursorRestartsTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, withPages(
			page("60000", "public", "2", "one", "two"), page("0", "public", "", "three"),
			`"error":{"code":-32602,"message":"unknown cursor"}`,
			page("60000", "public", "2b", "one", "new"), page("60000", "public", "", "three"),
		))
		if got := names(t, c); got != "one two three" {
			t.Errorf("first list: %s", got)
		}
		if got := names(t, c); got != "one two new three" {
			t.Errorf("second list: %s", got)
		}
		c.Close()
		if received := rec.methods(); strings.Count(received, "tools/list") != 5 {
			t.Errorf("the server received %s", received)
		}
	})
}

// Many reads do not grow the Cache above its limit.
func TestCacheIsBounded(t *testing.T) {
	var server sync.WaitGroup
	near, far := transport.Pipe()
	big := strings.Repeat("x", 256)
	server.Go(func() {
		defer far.Close()
		for {
			line, err := far.Read(t.Context())
			if err != nil {
				return
			}
			m, _ := jsonrpc.Parse(line, jsonrpc.Limits{})
			answer := note("3600000", "public", big)
			if m.Method == mcp.MethodDiscover {
				answer = discovered
			}
			_ = far.Write(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+m.ID.String()+`,`+answer+`}`))
		}
	})
	const limit = 128 << 10
	d := quiet()
	d.Cache = &client.Cache{MaxBytes: limit}
	c, err := d.Dial(t.Context(), client.Conn(near))
	if err != nil {
		t.Fatal(err)
	}
	read := func(from, to int) {
		for i := from; i < to; i++ {
			if got := text(t, c, fmt.Sprintf("note://%d", i)); got != big {
				t.Fatalf("read %d: %.80s", i, got)
			}
			if _, size := d.Cache.Size(); size > limit {
				t.Fatalf("the cache has %d bytes after %d reads", size, i)
			}
		}
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	read(0, 500) // fills the cache
	before := heap()
	read(500, 10_500)
	if grown := heap() - before; grown > limit {
		t.Errorf("10,000 reads of %d bytes grew the heap by %d bytes", len(big), grown)
	}
	results, size := d.Cache.Size()
	if results < 50 || size < limit/2 {
		t.Errorf("the cache has only %d results of %d bytes", results, size)
	}
	c.Close()
	server.Wait()
	if results, size := d.Cache.Size(); results != 0 || size != 0 {
		t.Errorf("after Close the cache has %d results of %d bytes that no client can use", results, size)
	}
}

func TestNegativeMaxBytesDisablesTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := target(withPages(page("60000", "public", "", "one"), page("60000", "public", "", "two")))
		d := quiet()
		d.Cache = &client.Cache{MaxBytes: -1}
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := names(t, c) + " " + names(t, c); got != "one two" {
			t.Errorf("tools %s", got)
		}
	})
}

// credentialServer lists a tool named after the credentials of the request and a counter. The
// results have the given cache scopes in turn.
func credentialServer(t *testing.T, scopes ...string) string {
	var mu sync.Mutex
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &mock{answers: map[string][]reply{"server/discover": {ok(discovered)}}}
		if r.Header.Get("Mcp-Method") == "tools/list" {
			mu.Lock()
			scope := scopes[min(requests, len(scopes)-1)]
			next := ""
			if requests%2 == 0 && len(scopes) > 1 {
				next = fmt.Sprint(requests)
			}
			requests++
			mu.Unlock()
			m.answers["tools/list"] = []reply{ok(page("60000", scope, next, r.Header.Get("Authorization")+fmt.Sprint(requests)))}
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// dialAs connects with credentials and a cache.
func dialAs(t *testing.T, cache *client.Cache, url, credentials string, configure ...func(*client.Dialer, *client.HTTPTarget)) *client.Client {
	t.Helper()
	d := quiet()
	d.Cache = cache
	to := &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {credentials}}}
	for _, f := range configure {
		f(&d, to)
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Rule C1.
func TestPrivateResultsAreNotSharedBetweenCredentials(t *testing.T) {
	for _, scope := range []string{"private", "", "Public"} { // unknown scopes are private
		url, cache := credentialServer(t, scope), new(client.Cache)
		ada, bob := dialAs(t, cache, url, "ada"), dialAs(t, cache, url, "bob")
		if got := names(t, ada) + " " + names(t, bob) + " " + names(t, dialAs(t, cache, url, "ada")); got != "ada1 bob2 ada1" {
			t.Errorf("scope %q: %s", scope, got)
		}
	}
}

func TestPublicResultsAreShared(t *testing.T) {
	url, cache := credentialServer(t, "public"), new(client.Cache)
	if got := names(t, dialAs(t, cache, url, "ada")) + " " + names(t, dialAs(t, cache, url, "bob")); got != "ada1 ada1" {
		t.Errorf("tools %s", got)
	}
	if got := names(t, dialAs(t, nil, url, "bob")); got != "bob2" {
		t.Errorf("without a shared cache: %s", got)
	}
	if got := names(t, dialAs(t, cache, url+"/?tenant=x", "bob")); got != "bob3" {
		t.Errorf("for another URL: %s", got)
	}
}

// Rule C1: different HTTPClients may reach different servers at the same URL.
func TestPublicResultsAreNotSharedBetweenServers(t *testing.T) {
	one, two, cache := credentialServer(t, "public"), credentialServer(t, "public"), new(client.Cache)
	via := func(url string) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(url, "http://"))
		}}}
	}
	first, second := via(one), via(two)
	list := func(credentials string, through *http.Client) string {
		return names(t, dialAs(t, cache, "http://localhost/mcp", credentials, func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = through }))
	}
	if got := list("ada", first) + " " + list("bob", second) + " " + list("cyd", first); got != "ada1 bob1 ada1" {
		t.Errorf("tools %s", got)
	}
}

// Rule C1: HTTPTarget.Identity separates private results, and so does an HTTPClient, which may add credentials.
func TestIdentitySeparatesPrivateResults(t *testing.T) {
	url, cache := credentialServer(t, "private"), new(client.Cache)
	who := "one"
	c := dialAs(t, cache, url, "ada", func(_ *client.Dialer, to *client.HTTPTarget) { to.Identity = func() string { return who } })
	first := names(t, c)
	who = "two"
	second := names(t, c)
	who = "one"
	if got := first + " " + second + " " + names(t, c); got != "ada1 ada2 ada1" {
		t.Errorf("tools %s", got)
	}
	hidden := func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = new(http.Client) }
	x, y := dialAs(t, cache, url, "ada", hidden), dialAs(t, cache, url, "ada", hidden)
	if got := names(t, x) + " " + names(t, y) + " " + names(t, x); got != "ada3 ada4 ada3" {
		t.Errorf("with an HTTPClient: %s", got)
	}
}

// bearer is an Authorizer without the method Identity.
type bearer struct{ who string }

func (b *bearer) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", b.who)
	return nil
}

func (*bearer) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// namedBearer is an Authorizer with the method Identity.
type namedBearer struct{ bearer }

func (b *namedBearer) Identity(string) string { return strings.TrimPrefix(b.who, "unknown") }

// Rule C1: the credentials of an Authorizer may change.
func TestAuthorizerIdentitySeparatesPrivateResults(t *testing.T) {
	by := func(auth client.Authorizer) func(*client.Dialer, *client.HTTPTarget) {
		return func(d *client.Dialer, to *client.HTTPTarget) { d.Auth, to.Header = auth, nil }
	}
	url, cache := credentialServer(t, "private"), new(client.Cache)
	ada, bob := dialAs(t, cache, url, "", by(&bearer{"ada"})), dialAs(t, cache, url, "", by(&bearer{"bob"}))
	if got := names(t, ada) + " " + names(t, bob) + " " + names(t, ada); got != "ada1 bob2 ada1" {
		t.Errorf("without Identity: tools %s", got)
	}
	who := &namedBearer{bearer{"ada"}}
	ada, bob = dialAs(t, cache, url, "", by(who)), dialAs(t, cache, url, "", by(&namedBearer{bearer{"bob"}}))
	again := dialAs(t, cache, url, "", by(&namedBearer{bearer{"ada"}}))
	if got := names(t, ada) + " " + names(t, bob) + " " + names(t, again); got != "ada3 bob4 ada3" {
		t.Errorf("with Identity: tools %s", got)
	}
	who.who = "bob" // another user has logged in
	if got := names(t, ada); got != "bob4" {
		t.Errorf("after a change of the user: tools %s", got)
	}
	who.who = "ada"
	through := dialAs(t, cache, url, "", by(who), func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = new(http.Client) })
	first := names(t, through)
	who.who = "bob"
	if got := first + " " + names(t, through); got != "ada5 bob6" {
		t.Errorf("with an HTTPClient: tools %s", got)
	}
	who.who = "unknown"
	stranger := dialAs(t, cache, url, "", by(&namedBearer{bearer{"unknown"}}))
	if got := names(t, ada) + " " + names(t, stranger); got != "unknown7 unknown8" {
		t.Errorf("unknown identity: tools %s", got)
	}
}

// Rule C1: all pages of a list are private if one is.
func TestOnePrivatePageMakesAListPrivate(t *testing.T) {
	url, cache := credentialServer(t, "public", "private", "public", "public"), new(client.Cache)
	if got := names(t, dialAs(t, cache, url, "ada")); got != "ada1 ada2" {
		t.Fatalf("tools %s", got)
	}
	if got := names(t, dialAs(t, cache, url, "bob")); got != "bob3 bob4" {
		t.Errorf("tools %s", got)
	}
}

func noRoots(context.Context) ([]mcp.Root, error) { return nil, nil }
