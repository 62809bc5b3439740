package client_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

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

// Rule C1: HTTPTarget.Identity separates private results, and so does an HTTPClient, which may add
// credentials.
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
