package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// page returns the fields of a response to tools/list.
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
	return fmt.Sprintf(`"result":{"resultType":"complete","ttlMs":%s,"cacheScope":%q,"contents":[{"uri":"note://a",`+
		`"text":%q}]}`, ttl, scope, text)
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
		s := withPages(page("60000", "private", "", "one"), page("60000", "private", "", "two"),
			page("60000", "private", "", "three"))
		c, _ := dial(t, s)
		for range 3 {
			must.Equal(t, names(t, c), "one")
		}
		time.Sleep(time.Minute - 1)
		must.CheckEqual(t, names(t, c), "one")
		time.Sleep(time.Nanosecond)
		must.CheckEqual(t, names(t, c), "two")
		must.CheckEqual(t, names(t, c, client.WithRefresh()), "three")
		must.CheckEqual(t, names(t, c), "three")
	})
}

// Results in a session carry no cache hints.
func TestSessionsCacheNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/list"] = []string{page("60000", "public", "", "one"), page("60000", "public", "", "two")}
		c, _ := dial(t, s)
		must.CheckEqual(t, names(t, c)+" "+names(t, c), "one two")
	})
}

// Rule C1: a result is cached for its method and all parameters.
func TestCacheKeyIncludesAllParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPages(page("60000", "public", "2", "one"), page("60000", "public", "", "two"))
		s.Answers["resources/read"] = []string{note("60000", "public", "a"), note("60000", "public", "b"),
			note("60000", "public", "c")}
		s.Answers["prompts/list"] = []string{`"result":{"resultType":"complete","ttlMs":60000,"cacheScope":"public",` +
			`"prompts":[]}`}
		c, rec := dial(t, s)
		meta := client.WithMeta(mcp.Meta{"com.example/tenant": []byte(`"x"`)})
		traced := func(id string) client.CallOption {
			return client.WithMeta(mcp.Meta{mcp.MetaTraceParent: []byte(`"` + id + `"`)})
		}
		for range 2 {
			must.CheckEqual(t, names(t, c), "one two")
			for range c.Prompts(t.Context()) {
				t.Error("the list of prompts is not empty")
			}
			must.CheckEqual(t,
				text(t, c, "note://a")+text(t, c, "note://b", traced("1"))+text(t, c, "note://a", meta)+
					text(t, c, "note://b", traced("2")), "abcb")
		}
		c.Close()
		received := rec.methods()
		must.CheckThat(t, strings.Count(received, "/list") == 3 && strings.Count(received, "resources/read") == 3,
			"the server received %s", received)
	})
}

// Rule C1: a result that depends on answers to input requests is not cached.
func TestResultsAfterInputRequestsAreNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := `"result":{"resultType":"input_required","ttlMs":60000,"cacheScope":"public",` +
			`"inputRequests":{"k":{"method":"roots/list"}},"requestState":"s"}`
		second := `"result":{"resultType":"input_required","ttlMs":60000,"requestState":"t"}`
		to, _ := target(withReads(first, note("60000", "public", "one"), second, note("60000", "public", "two"),
			note("60000", "public", "three")))
		d := quiet()
		d.Roots = noRoots
		c := must.Get(d.Dial(t.Context(), to))(t)
		defer c.Close()
		for _, want := range []string{"one", "two", "three", "three"} {
			must.CheckEqual(t, text(t, c, "note://a"), want)
		}
	})
}

func TestCallerMayModifyCachedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withPages(page("60000", "public", "", "one")))
		for range 2 {
			for tool, err := range c.Tools(t.Context()) {
				must.Do(t, err)
				must.CheckEqual(t, string(tool.InputSchema), `{"type":"object"}`, tool)
				clear(tool.InputSchema)
				tool.Name = "changed"
			}
		}
		must.CheckEqual(t, names(t, c), "one")
	})
}

// The server may have changed after a reconnect.
func TestReconnectDropsCachedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting := withPages(page("60000", "public", "", "one"))
		exiting.Answers["tools/call"] = []string{"!close"}
		c, _ := dial(t, exiting, withPages(page("60000", "public", "", "two")))
		before := names(t, c)
		must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrConnectionLost)
		must.Check(t, c.Ping(t.Context()))
		after := names(t, c)
		must.CheckThat(t, before == "one" && after == "two", "before %s, after %s", before, after)
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
		must.CheckEqual(t, names(t, c), "one two three")
		must.CheckEqual(t, names(t, c), "one two new three")
		c.Close()
		rec.wants(t, "tools/list", 5)
	})
}

// credentialServer lists a tool named after the credentials of the request and a counter. The
// results use the given cache scopes in turn.
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
			m.answers["tools/list"] = []reply{ok(page("60000", scope, next,
				r.Header.Get("Authorization")+fmt.Sprint(requests)))}
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// bearer is an Authorizer.
type bearer struct{ who string }

func (b *bearer) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", b.who)
	return nil
}

func (*bearer) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// namedBearer is an Authorizer with the method Identity.
type namedBearer struct{ bearer }

func (b *namedBearer) Identity(string) string { return strings.TrimPrefix(b.who, "unknown") }

func noRoots(context.Context) ([]mcp.Root, error) { return nil, nil }

// dialBy connects with an Authorizer.
func dialBy(t *testing.T, url string, auth client.Authorizer) *client.Client {
	t.Helper()
	d := quiet()
	d.Auth = auth
	c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// Rule C1: the credentials of an Authorizer may change.
func TestAuthorizerIdentitySeparatesPrivateResults(t *testing.T) {
	for _, scope := range []string{"private", "", "Public"} { // unknown scopes are private
		who := &namedBearer{bearer{"ada"}}
		c := dialBy(t, credentialServer(t, scope), who)
		for _, step := range []struct{ user, want string }{
			{"ada", "ada1"}, {"ada", "ada1"}, {"bob", "bob2"}, {"ada", "ada1"}, {"unknown", "unknown3"},
			{"ada", "ada1"},
		} {
			who.who = step.user
			must.CheckEqual(t, names(t, c), step.want, scope, step.user)
		}
	}
}

func TestPublicResultsDoNotDependOnCredentials(t *testing.T) {
	who := &namedBearer{bearer{"ada"}}
	c := dialBy(t, credentialServer(t, "public"), who)
	first := names(t, c)
	who.who = "bob"
	must.CheckEqual(t, first+" "+names(t, c), "ada1 ada1")
}

// Rule C1: all pages of a list are private if one is.
func TestOnePrivatePageMakesAListPrivate(t *testing.T) {
	who := &namedBearer{bearer{"ada"}}
	c := dialBy(t, credentialServer(t, "public", "private", "public", "public"), who)
	first := names(t, c)
	who.who = "bob"
	must.CheckEqual(t, first+", "+names(t, c), "ada1 ada2, bob3 bob4")
}

// A token is sent only to the server that it is for, and never over an unencrypted connection.
func TestBearerTokenAuthorizesOneServer(t *testing.T) {
	broken := errors.New("no token today")
	for name, test := range map[string]struct {
		server, asked string
		failure       error
		want          string // expected in the header, or in the error
	}{
		"the server":         {"https://mcp.example/mcp", "https://mcp.example/mcp", nil, "Bearer x"},
		"an equal URL":       {"https://mcp.example/mcp", "https://MCP.example:443/mcp", nil, "Bearer x"},
		"this machine":       {"http://127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp", nil, "Bearer x"},
		"another path":       {"https://mcp.example/mcp", "https://mcp.example/other", nil, ""},
		"another host":       {"https://mcp.example/mcp", "https://other.example/mcp", nil, ""},
		"plain HTTP":         {"http://mcp.example/mcp", "http://mcp.example/mcp", nil, "must be https"},
		"no token":           {"https://mcp.example/mcp", "https://mcp.example/mcp", broken, broken.Error()},
		"an invalid own URL": {"mcp", "https://mcp.example/mcp", nil, "absolute"},
	} {
		auth := client.BearerToken(test.server, func(context.Context) (string, error) { return "x", test.failure })
		req := must.Get(http.NewRequest(http.MethodPost, test.asked, nil))(t)
		err := auth.Authorize(req, test.asked)
		got := req.Header.Get("Authorization")
		if err != nil {
			must.CheckEqual(t, got, "", name)
			must.CheckContains(t, err.Error(), test.want, name)
			continue
		}
		must.CheckEqual(t, got, test.want, name)
	}
}
