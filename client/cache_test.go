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

// page is the answer to a list of tools.
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

// listing is a modern server with such answers to tools/list and resources/read.
func listing(pages ...string) *script {
	s := modernServer()
	s.Answers["tools/list"] = pages
	return s
}

func reading(notes ...string) *script {
	s := modernServer()
	s.Answers["resources/read"] = notes
	return s
}

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

func text(t *testing.T, c *client.Client, uri string, options ...client.CallOption) string {
	t.Helper()
	result, err := c.ReadResource(t.Context(), uri, options...)
	if err != nil {
		return err.Error()
	}
	return result.Contents[0].Text
}

func TestWhatIsFreshIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listing(page("60000", "private", "", "one"), page("60000", "private", "", "two"), page("60000", "private", "", "three"))
		c, _ := dial(t, s)
		for range 3 {
			if got := names(t, c); got != "one" {
				t.Fatalf("tools %s", got)
			}
		}
		time.Sleep(time.Minute - 1)
		if got := names(t, c); got != "one" {
			t.Errorf("just before the time is over: %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := names(t, c); got != "two" {
			t.Errorf("when the time is over: %s", got)
		}
		if got := names(t, c, client.WithRefresh()); got != "three" {
			t.Errorf("fresh: %s", got)
		}
		if got := names(t, c); got != "three" {
			t.Errorf("after that: %s", got)
		}
	})
}

// A server's word stands for a day at most.
func TestNothingIsFreshForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, listing(page("9223372036854775807", "public", "", "one"), page("0", "public", "", "two")))
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

// C1: a negative time counts as none.
func TestWhatIsNotFreshIsAskedForAgain(t *testing.T) {
	for _, ttl := range []string{"0", "-1", "-9223372036854775808"} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := dial(t, listing(page(ttl, "public", "", "one"), page(ttl, "public", "", "two")))
			if got := names(t, c) + " " + names(t, c); got != "one two" {
				t.Errorf("ttlMs %s: %s", ttl, got)
			}
		})
	}
}

// In sessions no result says how long it is fresh, whatever a server adds to it.
func TestNothingIsKeptInSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/list"] = []string{page("60000", "public", "", "one"), page("60000", "public", "", "two")}
		c, _ := dial(t, s)
		if got := names(t, c) + " " + names(t, c); got != "one two" {
			t.Errorf("tools %s", got)
		}
	})
}

// C1: the key is the method with all parameters.
func TestEachRequestHasItsOwnResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listing(page("60000", "public", "2", "one"), page("60000", "public", "", "two"))
		s.Answers["resources/read"] = []string{note("60000", "public", "a"), note("60000", "public", "b"), note("60000", "public", "c")}
		s.Answers["prompts/list"] = []string{`"result":{"resultType":"complete","ttlMs":60000,"cacheScope":"public","prompts":[]}`}
		c, played := dial(t, s)
		meta := client.WithMeta(mcp.Meta{"com.example/tenant": []byte(`"x"`)})
		traced := func(id string) client.CallOption {
			return client.WithMeta(mcp.Meta{mcp.MetaTraceParent: []byte(`"` + id + `"`)})
		}
		for range 2 {
			if got := names(t, c); got != "one two" {
				t.Errorf("tools %s", got)
			}
			for range c.Prompts(t.Context()) {
				t.Error("there are prompts")
			}
			if got := text(t, c, "note://a") + text(t, c, "note://b", traced("1")) + text(t, c, "note://a", meta) + text(t, c, "note://b", traced("2")); got != "abcb" {
				t.Errorf("resources %s", got)
			}
		}
		c.Close()
		if heard := played.methods(); strings.Count(heard, "/list") != 3 || strings.Count(heard, "resources/read") != 3 {
			t.Errorf("the server heard %s", heard)
		}
	})
}

// C1: what depends on answers is no result of the request.
func TestResultsThatTookAnswersAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := `"result":{"resultType":"input_required","ttlMs":60000,"cacheScope":"public","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s"}`
		again := `"result":{"resultType":"input_required","ttlMs":60000,"requestState":"t"}`
		to, _ := target(reading(ask, note("60000", "public", "one"), again, note("60000", "public", "two"), note("60000", "public", "three")))
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

func TestTheCallerMayChangeWhatItGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, listing(page("60000", "public", "", "one")))
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

// What one process has said need not hold for the next.
func TestANewConnectionKeepsNothingOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dying := listing(page("60000", "public", "", "one"))
		dying.Answers["tools/call"] = []string{"!close"}
		c, _ := dial(t, dying, listing(page("60000", "public", "", "two")))
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

// A cursor that was kept may be one that the server does not know any more.
func TestAForgottenCursorBeginsTheListAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, listing(
			page("60000", "public", "2", "one", "two"), page("0", "public", "", "three"),
			`"error":{"code":-32602,"message":"unknown cursor"}`,
			page("60000", "public", "2b", "one", "new"), page("60000", "public", "", "three"),
		))
		if got := names(t, c); got != "one two three" {
			t.Errorf("at first: %s", got)
		}
		if got := names(t, c); got != "one two new three" {
			t.Errorf("then: %s", got)
		}
		c.Close()
		if heard := played.methods(); strings.Count(heard, "tools/list") != 5 {
			t.Errorf("the server heard %s", heard)
		}
	})
}

// Reads without end leave no more behind than they may.
func TestTheCacheIsBounded(t *testing.T) {
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
	const bound = 128 << 10
	d := quiet()
	d.Cache = &client.Cache{MaxBytes: bound}
	c, err := d.Dial(t.Context(), client.Conn(near))
	if err != nil {
		t.Fatal(err)
	}
	read := func(from, to int) {
		for i := from; i < to; i++ {
			if got := text(t, c, fmt.Sprintf("note://%d", i)); got != big {
				t.Fatalf("read %d: %.80s", i, got)
			}
			if _, size := d.Cache.Size(); size > bound {
				t.Fatalf("after %d reads there are %d bytes", i, size)
			}
		}
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	read(0, 500) // it is full
	before := heap()
	read(500, 10_500)
	if grown := heap() - before; grown > bound {
		t.Errorf("10,000 reads of %d bytes leave %d bytes more than before", len(big), grown)
	}
	results, size := d.Cache.Size()
	if results < 50 || size < bound/2 {
		t.Errorf("%d results of %d bytes are kept", results, size)
	}
	c.Close()
	server.Wait()
	if results, size := d.Cache.Size(); results != 0 || size != 0 {
		t.Errorf("after Close %d results of %d bytes are kept that nobody else can use", results, size)
	}
}

func TestACacheThatKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := target(listing(page("60000", "public", "", "one"), page("60000", "public", "", "two")))
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

// whoami answers with the credentials that it was asked with, as private or public.
func whoami(t *testing.T, scopes ...string) string {
	var mu sync.Mutex
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &mock{answers: map[string][]reply{"server/discover": {ok(discovered)}}}
		if r.Header.Get("Mcp-Method") == "tools/list" {
			mu.Lock()
			scope := scopes[min(asked, len(scopes)-1)]
			next := ""
			if asked%2 == 0 && len(scopes) > 1 {
				next = fmt.Sprint(asked)
			}
			asked++
			mu.Unlock()
			m.answers["tools/list"] = []reply{ok(page("60000", scope, next, r.Header.Get("Authorization")+fmt.Sprint(asked)))}
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func as(t *testing.T, cache *client.Cache, url, who string, configure ...func(*client.Dialer, *client.HTTPTarget)) *client.Client {
	t.Helper()
	d := quiet()
	d.Cache = cache
	to := &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {who}}}
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

func TestC1PrivateResultsStayWithTheirCredentials(t *testing.T) {
	for _, scope := range []string{"private", "", "Public"} { // what is not public is private
		url, cache := whoami(t, scope), new(client.Cache)
		ada, bob := as(t, cache, url, "ada"), as(t, cache, url, "bob")
		if got := names(t, ada) + " " + names(t, bob) + " " + names(t, as(t, cache, url, "ada")); got != "ada1 bob2 ada1" {
			t.Errorf("scope %q: %s", scope, got)
		}
	}
}

func TestPublicResultsAreForEverybody(t *testing.T) {
	url, cache := whoami(t, "public"), new(client.Cache)
	if got := names(t, as(t, cache, url, "ada")) + " " + names(t, as(t, cache, url, "bob")); got != "ada1 ada1" {
		t.Errorf("tools %s", got)
	}
	if got := names(t, as(t, nil, url, "bob")); got != "bob2" {
		t.Errorf("without sharing: %s", got)
	}
	if got := names(t, as(t, cache, url+"/?tenant=x", "bob")); got != "bob3" {
		t.Errorf("of another address: %s", got)
	}
}

// C1: what a URL leads to is for the HTTPClient to say.
func TestC1PublicResultsStayWithTheirServer(t *testing.T) {
	one, two, cache := whoami(t, "public"), whoami(t, "public"), new(client.Cache)
	via := func(where string) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(where, "http://"))
		}}}
	}
	first, second := via(one), via(two)
	at := func(who string, through *http.Client) string {
		return names(t, as(t, cache, "http://localhost/mcp", who, func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = through }))
	}
	if got := at("ada", first) + " " + at("bob", second) + " " + at("cyd", first); got != "ada1 bob1 ada1" {
		t.Errorf("tools %s", got)
	}
}

// C1: whom requests are authorized as can be known to somebody else, or to nobody.
func TestIdentityIsTheAuthorization(t *testing.T) {
	url, cache := whoami(t, "private"), new(client.Cache)
	who := "one"
	c := as(t, cache, url, "ada", func(_ *client.Dialer, to *client.HTTPTarget) { to.Identity = func() string { return who } })
	first := names(t, c)
	who = "two"
	second := names(t, c)
	who = "one"
	if got := first + " " + second + " " + names(t, c); got != "ada1 ada2 ada1" {
		t.Errorf("tools %s", got)
	}
	hidden := func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = new(http.Client) }
	x, y := as(t, cache, url, "ada", hidden), as(t, cache, url, "ada", hidden)
	if got := names(t, x) + " " + names(t, y) + " " + names(t, x); got != "ada3 ada4 ada3" {
		t.Errorf("with credentials that nobody sees: %s", got)
	}
}

// bearer is an Authorizer that says nothing of whom it authorizes as.
type bearer struct{ who string }

func (b *bearer) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", b.who)
	return nil
}

func (*bearer) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// namedBearer says it, once it is known.
type namedBearer struct{ bearer }

func (b *namedBearer) Identity(string) string { return strings.TrimPrefix(b.who, "unknown") }

// C1: what an Authorizer adds is no part of the target, and may change.
func TestC1PrivateResultsStayWithWhatAnAuthorizerAdds(t *testing.T) {
	by := func(auth client.Authorizer) func(*client.Dialer, *client.HTTPTarget) {
		return func(d *client.Dialer, to *client.HTTPTarget) { d.Auth, to.Header = auth, nil }
	}
	url, cache := whoami(t, "private"), new(client.Cache)
	ada, bob := as(t, cache, url, "", by(&bearer{"ada"})), as(t, cache, url, "", by(&bearer{"bob"}))
	if got := names(t, ada) + " " + names(t, bob) + " " + names(t, ada); got != "ada1 bob2 ada1" {
		t.Errorf("unnamed: tools %s", got)
	}
	who := &namedBearer{bearer{"ada"}}
	ada, bob = as(t, cache, url, "", by(who)), as(t, cache, url, "", by(&namedBearer{bearer{"bob"}}))
	again := as(t, cache, url, "", by(&namedBearer{bearer{"ada"}}))
	if got := names(t, ada) + " " + names(t, bob) + " " + names(t, again); got != "ada3 bob4 ada3" {
		t.Errorf("named: tools %s", got)
	}
	who.who = "bob" // somebody else has logged in
	if got := names(t, ada); got != "bob4" {
		t.Errorf("after a change: tools %s", got)
	}
	who.who = "ada"
	through := as(t, cache, url, "", by(who), func(d *client.Dialer, _ *client.HTTPTarget) { d.HTTPClient = new(http.Client) })
	first := names(t, through)
	who.who = "bob"
	if got := first + " " + names(t, through); got != "ada5 bob6" {
		t.Errorf("through an HTTPClient: tools %s", got)
	}
	who.who = "unknown"
	stranger := as(t, cache, url, "", by(&namedBearer{bearer{"unknown"}}))
	if got := names(t, ada) + " " + names(t, stranger); got != "unknown7 unknown8" {
		t.Errorf("not known: tools %s", got)
	}
}

// C1: one scope for all pages, the narrower one.
func TestAListIsAsPrivateAsItsMostPrivatePage(t *testing.T) {
	url, cache := whoami(t, "public", "private", "public", "public"), new(client.Cache)
	if got := names(t, as(t, cache, url, "ada")); got != "ada1 ada2" {
		t.Fatalf("tools %s", got)
	}
	if got := names(t, as(t, cache, url, "bob")); got != "bob3 bob4" {
		t.Errorf("tools %s", got)
	}
}

func noRoots(context.Context) ([]mcp.Root, error) { return nil, nil }
