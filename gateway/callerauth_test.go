package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

const (
	operatorToken = "operator-token"
	exchangeID    = "gateway"
	exchangeKey   = "gateway-secret"
)

// users contains the users of a development issuer, and a gateway that accepts its tokens.
type users struct {
	t        *testing.T
	issuer   *devissuer.Issuer
	front    *httptest.Server // in front of the gateway
	server   *server.Server   // server of the gateway
	logins   map[string]*oauth.Client
	balancer // in front of the replicas
}

// balancer sends each request to the next replica, except that requests of HTTP+SSE pairs go to the first.
type balancer struct {
	replicas []http.Handler
	next     atomic.Int64
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	replica := b.replicas[b.next.Add(1)%int64(len(b.replicas))]
	if r.URL.Query().Has("sessionId") || r.Header.Get("Accept") == "text/event-stream" &&
		r.Header.Get("Mcp-Session-Id") == "" {
		replica = b.replicas[0]
	}
	replica.ServeHTTP(w, r)
}

func newUsers(t *testing.T, names ...string) *users {
	issuer := must.Get(devissuer.Start(devissuer.Config{Users: names}))(t)
	t.Cleanup(func() { issuer.Close() })
	u := &users{t: t, issuer: issuer, server: &server.Server{Name: "gateway", Version: "1"},
		logins: make(map[string]*oauth.Client)}
	u.replicas = []http.Handler{u.server}
	u.front = httptest.NewUnstartedServer(&u.balancer)
	u.server.Auth = u.resource()
	for _, name := range names {
		u.logins[name] = &oauth.Client{Interaction: &logintest.Interaction{RedirectURI: "http://127.0.0.1:3000/callback",
			Open: func(ctx context.Context, page string) (string, error) {
				return (&logintest.Browser{User: name}).Authorize(ctx, page)
			}}}
	}
	return u
}

// resource returns the protected resource of the gateway.
func (u *users) resource() *auth.ProtectedResource {
	return jwt.Protect(&auth.ProtectedResource{URI: u.url(), Issuers: []string{u.issuer.URL()}})
}

func (u *users) origin() string { return "http://" + u.front.Listener.Addr().String() }

func (u *users) url() string { return u.origin() + "/mcp" }

// start starts the gateway of h.
func (u *users) start(h *host.Host) {
	gatewaytest.Run(u.t, h, u.server)
	u.front.Start()
	u.t.Cleanup(u.front.Close)
	u.t.Cleanup(func() { u.server.Shutdown(context.Background()) })
}

// dial returns a client of a user.
func (u *users) dial(name string, r mcp.Revision) *client.Client {
	u.t.Helper()
	d := client.Dialer{Revision: r, Logger: quiet}
	if login := u.logins[name]; login != nil {
		d.Auth = login
	}
	c := must.Get(d.Dial(u.t.Context(), client.URL(u.url())))(u.t)
	u.t.Cleanup(func() { c.Close() })
	return c
}

// protectedServer is a server whose tool whoami returns the subject of the access token. It records the
// Authorization headers of all requests.
type protectedServer struct {
	*server.Server
	url string

	issued auth.Verifier // verifies the tokens of an issuer; may be nil

	mu    sync.Mutex
	valid map[string]string // subjects by token
	seen  map[string]int    // requests by Authorization header
}

func newProtectedServer(t *testing.T, issuer string) *protectedServer {
	p := &protectedServer{Server: &server.Server{Name: "protected", Version: "1", Logger: quiet},
		valid: map[string]string{operatorToken: "operator"}, seen: make(map[string]int)}
	whoami := func(ctx context.Context) string { return auth.FromContext(ctx).Principal.Subject() }
	server.AddTool(p.Server, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ none) (string, error) {
		return whoami(ctx), nil
	})
	server.AddPrompt(p.Server, mcp.Prompt{Name: "whoami"},
		func(ctx context.Context, _ none) (string, error) { return whoami(ctx), nil })
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen[r.Header.Get("Authorization")]++
		p.mu.Unlock()
		p.ServeHTTP(w, r)
	}))
	p.url = "http://" + up.Listener.Addr().String() + "/mcp"
	p.Auth = &auth.ProtectedResource{URI: p.url, Issuers: []string{issuer},
		Verifier: auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
			p.mu.Lock()
			subject, ok := p.valid[token]
			p.mu.Unlock()
			if !ok && p.issued != nil {
				return p.issued.Verify(ctx, token)
			}
			if !ok {
				return nil, &auth.InvalidTokenError{Reason: "unknown token"}
			}
			who, err := principal.New(issuer, subject, "")
			return &auth.Info{Principal: who, Audience: []string{p.url}}, err
		})}
	up.Start()
	t.Cleanup(up.Close)
	t.Cleanup(func() { p.Shutdown(context.Background()) })
	return p
}

// allow makes a token valid.
func (p *protectedServer) allow(token, subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.valid[token] = subject
}

// headers returns the Authorization headers of the requests so far.
func (p *protectedServer) headers() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen)
}

// config returns the config of the server. The operator may see its lists.
func (p *protectedServer) config(name string, callers *host.CallerAuth) host.ServerConfig {
	return host.ServerConfig{
		Name: name, Target: &client.HTTPTarget{URL: p.url,
			Header: http.Header{"Authorization": {"Bearer " + operatorToken}}}, CallerAuth: callers,
	}
}

// exchange is a token endpoint that exchanges tokens of the gateway for tokens of a server.
type exchange struct {
	*httptest.Server
	u  *users
	up map[string]*protectedServer // servers by URL

	mu    sync.Mutex
	forms []url.Values
}

func newExchange(t *testing.T, u *users) *exchange {
	x := &exchange{u: u, up: make(map[string]*protectedServer)}
	x.Server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.Close)
	return x
}

func (x *exchange) serve(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	x.mu.Lock()
	x.forms = append(x.forms, r.PostForm)
	number := len(x.forms)
	x.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	info, err := x.u.server.Auth.Verifier.Verify(r.Context(), r.PostForm.Get("subject_token"))
	up := x.up[r.PostForm.Get("resource")]
	if err != nil || up == nil || id != exchangeID || secret != exchangeKey ||
		r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	token := fmt.Sprintf("exchanged-%d", number)
	up.allow(token, info.Principal.Subject())
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w,
		`{"access_token":%q,"token_type":"Bearer",`+
			`"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":3600}`, token)
}

// requests returns how often a token was requested for a resource.
func (x *exchange) requests(resource string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, form := range x.forms {
		if form.Get("resource") == resource {
			n++
		}
	}
	return n
}

// callers returns a CallerAuth that exchanges tokens at this endpoint.
func (x *exchange) callers() *host.CallerAuth {
	all := &callers.Clients{New: func(principal.Principal) *oauth.Client {
		return &oauth.Client{Logger: quiet, Grant: &oauth.TokenExchange{TokenEndpoint: x.URL,
			Registration: oauth.Registration{ClientID: exchangeID, ClientSecret: exchangeKey}}}
	}}
	return host.NewCallerAuth(all.Authorizer)
}

var everyRevision = []mcp.Revision{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

// Rules R3, P8: each caller calls a server with a token that was exchanged, once, for the caller's own. The server
// receives no token of a caller, and the operator's token only for lists.
func TestCallersUseTheirOwnExchangedTokens(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		t.Run(string(theirs), func(t *testing.T) { testExchange(t, theirs) })
	}
}

func testExchange(t *testing.T, theirs mcp.Revision) {
	u := newUsers(t, "ada", "bob", "eve")
	x := newExchange(t, u)
	var servers []host.ServerConfig
	auths := x.callers()
	for _, name := range []string{"one", "two"} {
		p := newProtectedServer(t, x.URL)
		x.up[p.url] = p
		servers = append(servers, p.config(name, auths))
	}
	u.start(&host.Host{Servers: servers, Dialer: client.Dialer{Revision: theirs}})
	var calls sync.WaitGroup
	for name := range u.logins {
		for _, r := range everyRevision {
			c := u.dial(name, r)
			for _, s := range servers {
				for range 3 {
					calls.Go(func() {
						who, err := client.CallTool[string](t.Context(), c, s.Name+"__whoami", nil)
						must.CheckThat(t, err == nil && who == name,
							"%s in %s at %s: %q, %v", name, r, s.Name, who, err)
					})
				}
				calls.Go(func() {
					result, err := c.GetPrompt(t.Context(), s.Name+"__whoami", nil)
					must.CheckThat(t, err == nil && text([]mcp.Content{result.Messages[0].Content}) == name,
						"prompt for %s in %s at %s: %v, %v", name, r, s.Name, result, err)
				})
			}
		}
	}
	calls.Wait()
	for where, p := range x.up {
		must.CheckEqual(t, x.requests(where), len(u.logins))
		for header := range p.headers() {
			must.CheckThat(t, header == "Bearer "+operatorToken || strings.HasPrefix(header, "Bearer exchanged-"),
				"the server receives %q", header)
		}
	}
}

// A caller without authentication is rejected, and nothing is sent with the token of the operator.
func TestAnonymousCallersHaveNoCredentials(t *testing.T) {
	u := newUsers(t)
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	x.up[p.url] = p
	u.server.Auth = nil
	u.start(&host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}})
	for _, r := range everyRevision {
		before := p.headers()
		result, err := u.dial("", r).CallTool(t.Context(), "up__whoami", nil)
		must.CheckThat(t, err == nil && result.IsError &&
			strings.Contains(text(result.Content), "the caller is not authenticated"), "%s: %v, %v", r, result, err)
		if after := p.headers(); !maps.Equal(before, after) {
			t.Errorf("%s: the server has received requests: %v, before %v", r, after, before)
		}
	}
	must.CheckThat(t, len(x.forms) == 0, "token requests: %v", x.forms)
}

// A task that another process has taken over knows the principal of its caller, but not the token, which is not
// stored. The error of a new exchange says what to do.
func TestTaskThatWasTakenOverNeedsANewCall(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	x.up[p.url] = p
	h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}}
	u.start(h)
	ada := must.Get(principal.New(u.issuer.URL(), "ada", ""))(t)
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: ada})
	_, err := h.Client("up").CallTool(ctx, "whoami", nil)
	must.CheckThat(t, errors.Is(err, oauth.ErrInteraction) &&
		strings.Contains(err.Error(), "if another process has taken over a task, call its tool again"),
		"the error is %v", err)
	must.CheckEqual(t, x.requests(p.url), 0)
}

// brokered contains users of a gateway with two replicas. The users log in to a server with a separate issuer,
// where each user has the account NAME@up.
type brokered struct {
	*users
	upstream *devissuer.Issuer
	up       *protectedServer
	theirs   mcp.Revision
	kv       store.Store
	brokers  []*callers.Broker
	config   func(callers *host.CallerAuth) host.ServerConfig // config of the server

	mu      sync.Mutex
	reports []string
}

// newBrokered returns a gateway that talks to the server in a revision.
func newBrokered(t *testing.T, theirs mcp.Revision, names ...string) *brokered {
	b := &brokered{users: newUsers(t, names...), kv: store.NewMemory(), theirs: theirs}
	var accounts []string
	for _, name := range names {
		accounts = append(accounts, name+"@up")
	}
	var err error
	if b.upstream, err = devissuer.Start(devissuer.Config{Users: accounts}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.upstream.Close() })
	b.up = newProtectedServer(t, b.upstream.URL())
	b.up.issued = &jwt.Verifier{Issuers: []string{b.upstream.URL()}}
	b.config = func(callers *host.CallerAuth) host.ServerConfig { return b.up.config("up", callers) }
	return b
}

// start starts the gateway.
func (b *brokered) start() *brokered {
	b.replicas = nil
	for range 2 {
		b.addReplica()
	}
	b.front.Start()
	b.t.Cleanup(b.front.Close)
	return b
}

func (b *brokered) addReplica() {
	s := &server.Server{Name: "gateway", Version: "1", Auth: b.resource(), Store: b.kv,
		Keys: [][]byte{make([]byte, 32)}}
	broker := &callers.Broker{
		URL: b.origin() + "/login", Resource: s.Auth, Store: b.kv, Keys: s.Keys, Logger: quiet,
		New: func() *oauth.Client { return &oauth.Client{Name: "gateway", Logger: quiet} },
		Server: func(name string) string {
			if name == "up" {
				return b.up.url
			}
			return ""
		},
		Report: func(user principal.Principal, server string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reports = append(b.reports, fmt.Sprint(user.Subject(), " ", server, " ", err == nil))
		},
	}
	must.Do(b.t, broker.Check())
	gatewaytest.Run(b.t, &host.Host{
		Servers: []host.ServerConfig{b.config(host.NewCallerAuth(broker.Authorizer("up")))},
		Dialer:  client.Dialer{Revision: b.theirs},
	}, s)
	b.t.Cleanup(func() { s.Shutdown(context.Background()) })
	mux := http.NewServeMux()
	mux.Handle("/", s) // with its metadata
	mux.Handle("/login/", broker)
	b.replicas, b.brokers = append(b.replicas, mux), append(b.brokers, broker)
}

// webUser is the browser of a user.
type webUser struct {
	*brokered
	*logintest.Browser
	name string
}

func (b *brokered) browser(name string) *webUser {
	return &webUser{b, &logintest.Browser{User: name,
		Accounts: map[string]string{b.upstream.URL(): name + "@up"}}, name}
}

// logIn opens the first page of a login, and consents.
func (w *webUser) logIn(ctx context.Context, start string) error {
	body, err := w.Open(ctx, http.MethodGet, start)
	if err != nil {
		return err
	}
	if !strings.Contains(body, "<b>"+w.name+"</b>") || !strings.Contains(body, w.up.url) ||
		!strings.Contains(body, `<form method="post" action="`+start+`">`) {
		return fmt.Errorf("the page of %s is %s", w.name, body)
	}
	if body, err = w.Open(ctx, http.MethodPost, start); err == nil && !strings.Contains(body, "Login complete") {
		err = errors.New(body)
	}
	return err
}

// dialBrowsing returns a client whose user, when asked to open a URL, logs in after the client has answered.
func (b *brokered) dialBrowsing(name string, r mcp.Revision, browsing *sync.WaitGroup) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet, Auth: b.logins[name]}
	d.ElicitURL = func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		browsing.Go(func() { must.Check(b.t, b.browser(name).logIn(context.WithoutCancel(ctx), params.URL), name, r) })
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	c := must.Get(d.Dial(b.t.Context(), client.URL(b.url())))(b.t)
	b.t.Cleanup(func() { c.Close() })
	return c
}

var anyURL = regexp.MustCompile(`http://\S+/login/start/\w+`)

// Rules Y5, P1, P5: if a caller is not logged in to the server, the client asks the user to open a page, in every
// revision. Afterwards, the call is answered for the account of that user. All requests go to two replicas in
// turn.
func TestCallersLogInToAServer(t *testing.T) {
	t.Parallel()
	for _, theirs := range []mcp.Revision{mcp.V20250326, mcp.V20251125, mcp.V20260728} {
		for _, ours := range everyRevision {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				b := newBrokered(t, theirs, "ada", "bob").start()
				for _, name := range []string{"ada", "bob"} {
					b.useAs(name, ours)
				}
				b.checkReports("ada", "bob")
				for header, n := range b.up.headers() {
					_, token, _ := strings.Cut(header, " ")
					_, err := b.up.issued.Verify(t.Context(), token)
					must.CheckThat(t, err == nil || token == operatorToken || header == "",
						"the server has received %d requests with %q: %v", n, header, err)
				}
			})
		}
	}
}

// checkReports checks that the login of each user was reported as missing, and then as done. A request for the lists of
// the server that began before the login may report later that it is missing.
func (b *brokered) checkReports(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		missing, done := slices.Index(b.reports, name+" up false"), slices.Index(b.reports, name+" up true")
		must.CheckThat(b.t, missing >= 0 && done >= missing, "%s: the reports are %q", name, b.reports)
	}
}

// useAs logs a user in to the server, and calls it.
func (b *brokered) useAs(name string, r mcp.Revision) {
	t := b.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := b.dial(name, r).CallTool(ctx, "up__whoami", nil) // this client cannot ask its user
	must.That(t, err == nil && result.IsError && anyURL.FindString(text(result.Content)) != "",
		"%s: %v, %v", name, result, err)
	var browsing sync.WaitGroup
	defer browsing.Wait()
	c := b.dialBrowsing(name, r, &browsing)
	if r < mcp.V20251125 { // revisions without elicitation by URL
		if err := b.browser(name).logIn(ctx, anyURL.FindString(text(result.Content))); err != nil {
			t.Fatalf("%s after %q: %v", name, text(result.Content), err)
		}
	}
	for range 3 {
		who, err := client.CallTool[string](ctx, c, "up__whoami", nil)
		must.CheckThat(t, err == nil && who == name+"@up", "%s: %q, %v", name, who, err)
	}
	if result, err := c.GetPrompt(ctx, "up__whoami", nil); err != nil ||
		text([]mcp.Content{result.Messages[0].Content}) != name+"@up" {
		t.Errorf("%s: %v, %v", name, result, err)
	}
}
