package callers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokers contains two replicas of a program whose users log in to the servers "one" and "two": the MCP server
// of w under two names. issuer knows the users.
type brokers struct {
	t      *testing.T
	w      *oauthtest.Environment
	issuer *devissuer.Issuer
	front  *httptest.Server
	kv     *writtenKV
	all    []*callers.Broker
	server string                                // URL of the server; empty: the MCP server of w
	proxy  func(*http.Request) (*url.URL, error) // proxy of the OAuth clients; may be nil

	mu      sync.Mutex
	reports []string
}

// roundRobin sends each request to the next handler, and records which handler gets it.
type roundRobin struct {
	handlers []http.Handler

	mu    sync.Mutex
	next  int
	paths []string // paths that each handler received
}

func (r *roundRobin) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	h := r.handlers[r.next%len(r.handlers)]
	r.next++
	r.paths = append(r.paths, req.URL.Path)
	r.mu.Unlock()
	h.ServeHTTP(rw, req)
}

// writtenKV records all written values.
type writtenKV struct {
	store.Store
	onGet func(key string) // called after an item was read; may be nil

	mu     sync.Mutex
	values []string
}

func (r *writtenKV) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := r.Store.Get(ctx, key)
	if r.onGet != nil {
		r.onGet(key)
	}
	return item, err
}

func (r *writtenKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	r.mu.Lock()
	r.values = append(r.values, key+" "+string(value))
	r.mu.Unlock()
	return r.Store.Put(ctx, key, value, opt)
}

func newBrokers(t *testing.T) *brokers {
	issuer := must.Get(devissuer.Start(devissuer.Config{Users: []string{"ada", "bob", "<eve>"}}))(t)
	t.Cleanup(func() { issuer.Close() })
	b := &brokers{t: t, w: oauthtest.New(t), issuer: issuer, kv: &writtenKV{Store: store.NewMemory()}}
	front := &roundRobin{}
	b.front = httptest.NewServer(front)
	t.Cleanup(b.front.Close)
	for range 2 {
		front.handlers = append(front.handlers, b.addReplica())
	}
	t.Cleanup(b.checkStored)
	return b
}

func (b *brokers) addReplica() *callers.Broker {
	one := &callers.Broker{
		URL: b.front.URL + "/login", Store: b.kv, Keys: [][]byte{make([]byte, 32)},
		Resource: jwt.Protect(&auth.ProtectedResource{URI: b.front.URL + "/mcp", Issuers: []string{b.issuer.URL()}}),
		Server: func(name string) string {
			switch {
			case name != "one" && name != "two":
				return ""
			case b.server != "":
				return b.server
			}
			return b.w.URL()
		},
		New: func() *oauth.Client {
			c := b.w.Client()
			c.Interaction, c.Proxy = nil, b.proxy
			return c
		},
		Report: func(user principal.Principal, server string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reports = append(b.reports, fmt.Sprint(user.Subject(), " ", server, " ", err == nil))
		},
		Logger: b.w.Client().Logger,
	}
	must.Do(b.t, one.Check())
	b.all = append(b.all, one)
	return one
}

// checkStored checks that no stored value contains a secret.
func (b *brokers) checkStored() {
	b.kv.mu.Lock()
	defer b.kv.mu.Unlock()
	for _, v := range b.kv.values {
		// eyJhbGciOi begins a JSON Web Token. Encrypted values contain three bytes of it by chance.
		for _, s := range []string{oauthtest.Secret, "eyJhbGciOi", "code_verifier", "access_token"} {
			must.CheckThat(b.t, !strings.Contains(v, s), "O14: the store has %q in %q", s, v)
		}
	}
}

// call calls the tool of a server for a user, at a replica.
func (b *brokers) call(replica int, name, server string) error {
	b.t.Helper()
	who := must.Get(principal.New(b.issuer.URL(), name, "some client"))(b.t)
	a := must.Get(b.all[replica].Authorizer(server)(who))(b.t)
	c, err := (&client.Dialer{Auth: a}).Dial(b.t.Context(), client.URL(b.all[replica].Server(server)))
	if err != nil {
		return err
	}
	defer c.Close()
	return b.w.Greet(c)
}

// required returns the URL that the error of a call asks the user to open, and whether the user has logged in
// there.
func (b *brokers) required(err error) (start string, done bool) {
	b.t.Helper()
	required, ok := errors.AsType[*call.URLRequiredError](err)
	must.That(b.t, ok && errors.Is(err, oauth.ErrInteraction), "the error is %v", err)
	done, err = required.URLs[0].Done(b.t.Context())
	must.Do(b.t, err)
	return required.URLs[0].URL, done
}

// brokerBrowser is the browser of a user.
type brokerBrowser struct {
	*brokers
	name string
	jar  http.CookieJar
}

func (b *brokers) browser(name string) *brokerBrowser {
	jar := must.Get(cookiejar.New(nil))(b.t)
	return &brokerBrowser{b, name, jar}
}

// do sends a request and does not follow redirects.
func (b *brokerBrowser) do(method, address string, change func(*http.Request)) (status int, body, location string) {
	b.t.Helper()
	r := must.Get(http.NewRequestWithContext(b.t.Context(), method, address, nil))(b.t)
	if method == http.MethodPost {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	c := http.Client{Jar: b.jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(c.Do(r))(b.t)
	defer resp.Body.Close()
	raw := must.Get(io.ReadAll(resp.Body))(b.t)
	h := resp.Header
	must.CheckThat(b.t, !strings.HasPrefix(address, b.front.URL) || h.Get("Cache-Control") == "no-store" &&
		h.Get("Referrer-Policy") == "no-referrer" &&
		strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'"), "headers of %s: %v", address, h)
	return resp.StatusCode, string(raw), resp.Header.Get("Location")
}

// signIn opens the first page of a login and returns the page that asks for consent.
func (b *brokerBrowser) signIn(start string) (body string) {
	b.t.Helper()
	status, body, page := b.do(http.MethodGet, start, nil)
	if status == http.StatusOK { // already signed in
		return body
	}
	redirect := must.Get((&logintest.Browser{User: b.name}).Authorize(b.t.Context(), page))(b.t)
	status, body, location := b.do(http.MethodGet, redirect, nil)
	must.Equal(b.t, status, http.StatusSeeOther, body)
	must.Equal(b.t, location, start, body)
	_, body, _ = b.do(http.MethodGet, location, nil)
	return body
}

// consent submits the form of the page, and returns the redirect of the authorization server.
func (b *brokerBrowser) consent(start string) (redirect string) {
	b.t.Helper()
	status, body, page := b.do(http.MethodPost, start, nil)
	must.That(b.t, status == http.StatusSeeOther && strings.HasPrefix(page, b.w.AS.URL+"/authorize?"),
		"after the consent: %d %s %q", status, body, page)
	_, _, redirect = b.do(http.MethodGet, page, nil)
	return redirect
}

func (b *brokerBrowser) logIn(start string) {
	b.t.Helper()
	b.signIn(start)
	status, body, _ := b.do(http.MethodGet, b.consent(start), nil)
	must.That(b.t, status == http.StatusOK && strings.Contains(body, "Login complete"),
		"at the end of the login: %d %s", status, body)
}

// Rules P1, P2, P5: a user signs in, sees the server and their own name, consents, and logs in. Until then, nothing
// is sent to the MCP server for the user. The pages reach two replicas in turn, and the login is used by both.
func TestBrokerLogsAUserIn(t *testing.T) {
	b := newBrokers(t)
	needed := b.call(0, "ada", "one")
	start, done := b.required(needed)
	if n := b.w.Count("mcp POST " + b.w.Path); done || n > 0 || start != b.front.URL+"/login/start/one" {
		t.Fatalf("URL %q, done %t, %d requests", start, done, n)
	}
	ada := b.browser("ada")
	body := ada.signIn(start)
	for _, want := range []string{"<b>ada</b>", "<b>one</b>", b.w.URL(), b.issuer.URL()} {
		must.CheckContains(t, body, want)
	}
	must.CheckThat(t, b.w.Count("as POST /token") <= 0, "a token was requested before the consent")
	redirect := ada.consent(start)
	if _, done := b.required(b.call(1, "ada", "one")); done {
		t.Error("the login is done before the redirect")
	}
	if status, body, _ := ada.do(http.MethodGet, redirect, nil); status != http.StatusOK {
		t.Fatal(body)
	}
	if _, done := b.required(needed); !done {
		t.Error("the login is still needed")
	}
	for replica := range b.all {
		must.Check(t, b.call(replica, "ada", "one"), replica)
	}
	must.CheckEqual(t, b.w.Count("as POST /register"), 1)
	must.CheckEqual(t, fmt.Sprint(b.reports), "[ada one false ada one false ada one true]", b.reports)
	for _, q := range b.w.Queries {
		must.CheckThat(t, q.Get("redirect_uri") == b.front.URL+"/login/callback/one" &&
			q.Get("resource") == b.w.URL() && q.Get("code_challenge_method") == "S256",
			"O1, O2, O9: authorization request %v", q)
	}
}

// Rule Y5: a user who opens the page that another user was asked to open logs in only for themselves. No user gets the
// login of another.
func TestLoginsBelongToTheUserOfTheBrowser(t *testing.T) {
	names := []string{"ada", "bob", "<eve>"}
	for _, asked := range names {
		for _, opens := range names {
			b := newBrokers(t)
			start, _ := b.required(b.call(0, asked, "one"))
			b.browser(opens).logIn(start)
			for _, name := range names {
				for replica := range b.all {
					err := b.call(replica, name, "one")
					if name == opens {
						must.Check(t, err, asked, opens, "opened the page: the call", name)
						continue
					}
					if _, done := b.required(err); done {
						t.Errorf("%s was asked, %s opened the page: the login of %s is done", asked, opens, name)
					}
				}
			}
		}
	}
}

// Rules P5, O8: a redirect counts once, in the browser and for the user and the server that it belongs to.
func TestBrokerAcceptsARedirectOnce(t *testing.T) {
	b := newBrokers(t)
	start := b.front.URL + "/login/start/one"
	ada, bob, thief := b.browser("ada"), b.browser("bob"), b.browser("ada")
	ada.signIn(start)
	bob.signIn(start)
	thief.signIn(start)
	redirect := ada.consent(start)
	state := func(value string) string {
		u, _ := url.Parse(redirect)
		q := u.Query()
		q.Set("state", value)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, try := range map[string]func() (int, string, string){
		"another user":    func() (int, string, string) { return bob.do(http.MethodGet, redirect, nil) },
		"another browser": func() (int, string, string) { return thief.do(http.MethodGet, redirect, nil) },
		"a browser without a user": func() (int, string, string) {
			return b.browser("").do(http.MethodGet, redirect, nil)
		},
		"another server": func() (int, string, string) {
			return ada.do(http.MethodGet, strings.Replace(redirect, "callback/one", "callback/two", 1), nil)
		},
		"the redirect URI of issuers": func() (int, string, string) {
			return ada.do(http.MethodGet, strings.Replace(redirect, "callback/one", "callback", 1), nil)
		},
		"another state": func() (int, string, string) { return ada.do(http.MethodGet, state("guessed"), nil) },
		"no state":      func() (int, string, string) { return ada.do(http.MethodGet, state(""), nil) },
	} {
		if status, body, _ := try(); status != http.StatusBadRequest || !strings.Contains(body, "not recognized") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	n := b.w.Count("as POST /token")
	must.That(t, n <= 0, "%d token requests", n)
	var accepted []int
	var tries, reading sync.WaitGroup
	var mu sync.Mutex
	reading.Add(4)
	b.kv.onGet = func(key string) {
		if strings.Contains(key, "oauth/login/") { // all requests have read the login before one takes it
			reading.Done()
			reading.Wait()
		}
	}
	for range 4 {
		tries.Go(func() {
			status, _, _ := ada.do(http.MethodGet, redirect, nil)
			mu.Lock()
			defer mu.Unlock()
			accepted = append(accepted, status)
		})
	}
	tries.Wait()
	slices.Sort(accepted)
	if want := []int{http.StatusOK, http.StatusBadRequest, http.StatusBadRequest,
		http.StatusBadRequest}; !slices.Equal(accepted, want) || b.w.Count("as POST /token") != 1 {
		t.Errorf("statuses %v, %d token requests", accepted, b.w.Count("as POST /token"))
	}
}

// Rule O6: the authorization response must be from the authorization server that the user was sent to.
func TestBrokerChecksTheIssuerOfTheRedirect(t *testing.T) {
	for name, change := range map[string]func(q, redirect url.Values){
		"another issuer": func(_, redirect url.Values) { redirect.Set("iss", "https://other.example") },
		"no issuer":      func(_, redirect url.Values) { redirect.Del("iss") },
		"an error":       func(_, redirect url.Values) { redirect.Set("error", "access_denied"); redirect.Del("code") },
	} {
		b := newBrokers(t)
		b.w.OnAuthorize = change
		start := b.front.URL + "/login/start/one"
		ada := b.browser("ada")
		ada.signIn(start)
		status, body, _ := ada.do(http.MethodGet, ada.consent(start), nil)
		must.CheckThat(t, status == http.StatusBadGateway && strings.Contains(body, "Login failed") &&
			!strings.Contains(body, "access_denied"), "%s: %d %s", name, status, body)
		if n := b.w.Count("as POST /token"); n > 0 || fmt.Sprint(b.reports) != "[ada one false]" {
			t.Errorf("%s: %d token requests, reports %v", name, n, b.reports)
		}
		b.required(b.call(0, "ada", "one"))
	}
}

// Rules P1, P2: without the consent of the browser's user, which a page of another origin cannot give, the browser is
// not sent to the authorization server.
func TestBrokerRequiresConsent(t *testing.T) {
	b := newBrokers(t)
	start := b.front.URL + "/login/start/one"
	ada := b.browser("ada")
	ada.signIn(start)
	for name, tc := range map[string]struct {
		browser        *brokerBrowser
		method, path   string
		change         func(*http.Request)
		status         int
		body, location string
	}{
		"cross-site form": {ada, "POST", "/login/start/one",
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 400, "not recognized", ""},
		"same-site form": {ada, "POST", "/login/start/one",
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 400, "not recognized", ""},
		"origin of a form": {ada, "POST", "/login/start/one",
			func(r *http.Request) {
				r.Header.Del("Sec-Fetch-Site")
				r.Header.Set("Origin", "https://evil.example")
			}, 400, "not recognized", ""},
		"no user":          {b.browser("ada"), "POST", "/login/start/one", nil, 303, "", start},
		"unknown server":   {ada, "GET", "/login/start/three", nil, 404, "not found", ""},
		"no server":        {ada, "GET", "/login/start/", nil, 404, "not found", ""},
		"another path":     {ada, "GET", "/login/other/one", nil, 404, "not found", ""},
		"another method":   {ada, "PUT", "/login/start/one", nil, 405, "", ""},
		"form to redirect": {ada, "POST", "/login/callback/one", nil, 405, "", ""},
		"another host": {ada, "GET", "/login/start/one", func(r *http.Request) {
			r.Host = "evil.example"
		}, 403, "another host", ""},
		"unknown parameter": {ada, "GET", "/login/start/one?next=https://evil.example", nil, 200, "<b>ada</b>", ""},
	} {
		status, body, location := tc.browser.do(tc.method, b.front.URL+tc.path, tc.change)
		must.CheckThat(t, status == tc.status && strings.Contains(strings.ToLower(body), strings.ToLower(tc.body)) &&
			location == tc.location && !strings.Contains(body, "evil"), "%s: %d %q %s", name, status, location, body)
	}
	must.CheckThat(t, len(b.w.Queries) == 0, "authorization requests %v", b.w.Queries)
}

// Rule P3: a cookie does not count as another kind of cookie, for another user, or with other keys.
func TestBrokerAcceptsItsOwnCookiesOnly(t *testing.T) {
	b := newBrokers(t)
	start := b.front.URL + "/login/start/one"
	ada := b.browser("ada")
	ada.signIn(start)
	_, _, page := b.browser("bob").do(http.MethodGet, start, nil)
	signIn := ""
	for name, value := range map[string]string{"forged": "x", "empty": "", "of a sign-in": "signin"} {
		thief := b.browser("bob")
		u, _ := url.Parse(b.front.URL)
		if value == "signin" {
			thief.do(http.MethodGet, start, nil)
			signIn = thief.jar.Cookies(u)[0].Value
			value = signIn
		}
		thief.jar.SetCookies(u, []*http.Cookie{{Name: "user", Value: value, Path: "/"}})
		status, body, location := thief.do(http.MethodGet, start, nil)
		must.CheckThat(t, status == http.StatusSeeOther && strings.HasPrefix(location, b.issuer.URL()),
			"%s: %d %q %s", name, status, location, body)
	}
	// A redirect of an issuer is accepted only in the browser that was sent there.
	redirect := must.Get((&logintest.Browser{User: "bob"}).Authorize(t.Context(), page))(t)
	status, body, _ := b.browser("ada").do(http.MethodGet, redirect, nil)
	must.CheckEqual(t, status, http.StatusBadRequest, "sign-in of another browser", body)
}

// Users see the logins that are kept for them, and end them. The pages reach two replicas in turn.
func TestUsersEndTheirLogins(t *testing.T) {
	b := newBrokers(t)
	index, end := b.front.URL+"/login/", b.front.URL+"/login/end/one"
	ada, bob := b.browser("ada"), b.browser("bob")
	if body := ada.signIn(index); !strings.Contains(body, "<b>ada</b>") || !strings.Contains(body, "keeps no logins") {
		t.Errorf("before the login: %s", body)
	}
	for name, browser := range map[string]*brokerBrowser{"ada": ada, "bob": bob} {
		start, _ := b.required(b.call(0, name, "one"))
		browser.logIn(start)
		must.Do(t, b.call(0, name, "one"))
	}
	_, body, _ := ada.do(http.MethodGet, index, nil)
	must.CheckThat(t, strings.Contains(body, `<form method="post" action="`+end+`"><b>one</b>`) &&
		!strings.Contains(body, "two") && !strings.Contains(body, "bob"), "after the login: %s", body)
	for name, change := range map[string]func(*http.Request){
		"cross-site form": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site form":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
	} {
		status, _, _ := ada.do(http.MethodPost, end, change)
		must.CheckThat(t, status == http.StatusBadRequest, "%s: status %d", name, status)
	}
	status, _, _ := ada.do(http.MethodGet, end, nil)
	must.CheckThat(t, status == http.StatusMethodNotAllowed, "a link ends a login: status %d", status)
	// no user
	status, _, location := b.browser("ada").do(http.MethodPost, end, nil)
	must.CheckThat(t, status == http.StatusSeeOther && location == index,
		"a browser without a user: %d %s", status, location)
	must.Check(t, b.call(0, "ada", "one"))
	for range 2 { // at both replicas
		status, _, location := ada.do(http.MethodPost, end, nil)
		must.CheckThat(t, status == http.StatusSeeOther && location == index, "status %d %s", status, location)
	}
	if _, body, _ := ada.do(http.MethodGet, index, nil); !strings.Contains(body, "keeps no logins") {
		t.Errorf("after the end: %s", body)
	}
	for replica := range b.all {
		must.CheckIs(t, b.call(replica, "ada", "one"), oauth.ErrInteraction, replica)
		must.Check(t, b.call(replica, "bob", "one"))
	}
	start, _ := b.required(b.call(0, "ada", "one"))
	ada.logIn(start)
	must.Check(t, b.call(0, "ada", "one"))
}
