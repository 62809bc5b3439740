package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

const (
	operatorToken = "operator-token"
	exchangeID    = "gateway"
	exchangeKey   = "gateway-secret"
)

// users are the users of a development issuer and of a gateway that accepts its tokens.
type users struct {
	t        *testing.T
	issuer   *devissuer.Issuer
	front    *httptest.Server // of the gateway
	server   *server.Server   // of the gateway
	logins   map[string]*oauth.Client
	replicas []http.Handler // of the gateway; each request goes to the next one
	next     atomic.Int64
}

func newUsers(t *testing.T, names ...string) *users {
	issuer, err := devissuer.Start(devissuer.Config{Users: names})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { issuer.Close() })
	u := &users{t: t, issuer: issuer, server: &server.Server{Name: "gateway", Version: "1"}, logins: make(map[string]*oauth.Client)}
	u.replicas = []http.Handler{u.server}
	u.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.replicas[u.next.Add(1)%int64(len(u.replicas))].ServeHTTP(w, r)
	}))
	u.server.Auth = u.resource()
	for _, name := range names {
		u.logins[name] = &oauth.Client{Interaction: &oauth.Manual{RedirectURI: "http://127.0.0.1:3000/callback", Open: func(ctx context.Context, page string) (string, error) {
			return (&devissuer.Browser{User: name}).Authorize(ctx, page)
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
	c, err := d.Dial(u.t.Context(), client.URL(u.url()))
	if err != nil {
		u.t.Fatal(err)
	}
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
	p := &protectedServer{Server: &server.Server{Name: "protected", Version: "1", Logger: quiet}, valid: map[string]string{operatorToken: "operator"}, seen: make(map[string]int)}
	whoami := func(ctx context.Context) string { return auth.FromContext(ctx).Principal.Subject() }
	server.AddTool(p.Server, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ none) (string, error) { return whoami(ctx), nil })
	server.AddPrompt(p.Server, mcp.Prompt{Name: "whoami"}, func(ctx context.Context, _ none) (string, error) { return whoami(ctx), nil })
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen[r.Header.Get("Authorization")]++
		p.mu.Unlock()
		p.ServeHTTP(w, r)
	}))
	p.url = "http://" + up.Listener.Addr().String() + "/mcp"
	p.Auth = &auth.ProtectedResource{URI: p.url, Issuers: []string{issuer}, Verifier: auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
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

// config returns the config of the server, whose lists the operator may see.
func (p *protectedServer) config(name string, callers *host.CallerAuth) host.ServerConfig {
	return host.ServerConfig{
		Name: name, Target: &client.HTTPTarget{URL: p.url, Header: http.Header{"Authorization": {"Bearer " + operatorToken}}}, CallerAuth: callers,
	}
}

// exchange is a token endpoint that exchanges tokens of the gateway for tokens of a server.
type exchange struct {
	*httptest.Server
	u  *users
	up map[string]*protectedServer // by URL

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
	if err != nil || up == nil || id != exchangeID || secret != exchangeKey || r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	token := fmt.Sprintf("exchanged-%d", number)
	up.allow(token, info.Principal.Subject())
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":3600}`, token)
}

// requests returns how many tokens were requested for a resource.
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

// callers returns the authorization of the callers by this endpoint.
func (x *exchange) callers() *host.CallerAuth {
	all := &oauth.Callers{New: func(principal.Principal) *oauth.Client {
		return &oauth.Client{Logger: quiet, Grant: &oauth.TokenExchange{TokenEndpoint: x.URL, ClientID: exchangeID, ClientSecret: exchangeKey}}
	}}
	return host.NewCallerAuth(all.Authorizer)
}

var everyRevision = []mcp.Revision{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

// Rules R3, P8: each caller calls a server with a token that was exchanged for its own, once. The server receives no
// token of a caller, and the token of the operator only for lists.
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
						if err != nil || who != name {
							t.Errorf("%s in %s at %s: %q, %v", name, r, s.Name, who, err)
						}
					})
				}
				calls.Go(func() {
					if result, err := c.GetPrompt(t.Context(), s.Name+"__whoami", nil); err != nil || text([]mcp.Content{result.Messages[0].Content}) != name {
						t.Errorf("prompt for %s in %s at %s: %v, %v", name, r, s.Name, result, err)
					}
				})
			}
		}
	}
	calls.Wait()
	for where, p := range x.up {
		if n := x.requests(where); n != len(u.logins) {
			t.Errorf("%d exchanges for %d callers", n, len(u.logins))
		}
		for header := range p.headers() {
			if header != "Bearer "+operatorToken && !strings.HasPrefix(header, "Bearer exchanged-") {
				t.Errorf("the server receives %q", header)
			}
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
		if err != nil || !result.IsError || !strings.Contains(text(result.Content), "the caller is not authenticated") {
			t.Errorf("%s: %v, %v", r, result, err)
		}
		if after := p.headers(); !maps.Equal(before, after) {
			t.Errorf("%s: the server has received requests: %v, before %v", r, after, before)
		}
	}
	if len(x.forms) > 0 {
		t.Errorf("token requests: %v", x.forms)
	}
}

// A task that another process has taken over has the principal of its caller, but not the token, which is not stored. The error of a
// new exchange says what to do.
func TestTaskThatWasTakenOverNeedsANewCall(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	x.up[p.url] = p
	h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}}
	u.start(h)
	ada, err := principal.New(u.issuer.URL(), "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: ada})
	_, err = h.CallTool(ctx, "up", "whoami", nil)
	if !errors.Is(err, oauth.ErrInteraction) || !strings.Contains(err.Error(), "if another process has taken over a task, call its tool again") {
		t.Errorf("the error is %v", err)
	}
	if x.requests(p.url) != 0 {
		t.Error("a token was requested")
	}
}
