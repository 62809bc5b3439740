package mcptest_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// realm is a server over HTTP that requires tokens, and their issuer.
type realm struct {
	t      *testing.T
	issuer *devissuer.Issuer
	server *server.Server
	url    string // the endpoint, which is also the audience

	mu       sync.Mutex
	received map[string]bool // tokens that the server has received
	rejected map[string]bool // tokens that the server rejects
	sessions map[string]bool // session ids in requests
}

// realmConfig configures a realm. newRealm adds the address and the issuer.
type realmConfig struct {
	issuer   devissuer.Config
	resource auth.ProtectedResource
}

// newRealm serves s until the test ends. Every request needs the scope "mcp".
func newRealm(t *testing.T, s *server.Server, configure ...func(*realmConfig)) *realm {
	t.Helper()
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	config := &realmConfig{issuer: devissuer.Config{Users: []string{"ada", "bob"}}}
	config.resource.Scopes = []string{"mcp"}
	for _, f := range configure {
		f(config)
	}
	issuer, err := devissuer.Start(config.issuer)
	if err != nil {
		t.Fatal(err)
	}
	w := &realm{t: t, issuer: issuer, server: s, received: make(map[string]bool), rejected: make(map[string]bool), sessions: make(map[string]bool)}
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	endpoint.Config.ErrorLog = slog.NewLogLogger(s.Logger.Handler(), slog.LevelError)
	w.url = "http://" + endpoint.Listener.Addr().String() + "/mcp"
	issued := &jwt.Verifier{Issuers: []string{issuer.URL()}}
	s.Auth = jwt.Protect(&config.resource)
	s.Auth.URI, s.Auth.Issuers = w.url, issued.Issuers
	s.Auth.Verifier = auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
		w.mu.Lock()
		rejected := w.rejected[token]
		w.mu.Unlock()
		if rejected {
			return nil, &auth.InvalidTokenError{Reason: "the token has expired"}
		}
		return issued.Verify(ctx, token)
	})
	endpoint.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.CloseClientConnections()
		endpoint.Close()
		_ = issuer.Close()
	})
	return w
}

func (w *realm) serve(rw http.ResponseWriter, r *http.Request) {
	_, token, given := strings.Cut(r.Header.Get("Authorization"), " ")
	w.mu.Lock()
	if given {
		w.received[token] = true
	}
	for _, id := range []string{r.Header.Get("Mcp-Session-Id"), r.URL.Query().Get("sessionId")} {
		if id != "" {
			w.sessions[id] = true
		}
	}
	w.mu.Unlock()
	w.server.ServeHTTP(rw, r)
}

// expire makes the server reject all tokens that it has received so far.
func (w *realm) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for token := range w.received {
		w.rejected[token] = true
	}
}

// reject makes the server reject a token.
func (w *realm) reject(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejected[token] = true
}

// tokenCount returns the number of tokens that the server has received.
func (w *realm) tokenCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.received)
}

// sessionCount returns the number of sessions in requests; 2026-07-28 has none.
func (w *realm) sessionCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions)
}

// token returns a token for a user, without a login.
func (w *realm) token(user string, scopes ...string) string {
	w.t.Helper()
	token, err := w.issuer.Token(user, w.url, append(scopes, "mcp")...)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// person is a user with a browser and a store of tokens.
type person struct {
	browser devissuer.Browser
	store   oauth.MemoryStore
	asked   atomic.Int64 // the number of logins
}

// program returns the OAuth client of a program of the user. All programs share the store.
func (p *person) program() *oauth.Client {
	return &oauth.Client{
		Store:  &p.store,
		Logger: slog.New(slog.DiscardHandler),
		Interaction: &oauth.Manual{RedirectURI: "http://127.0.0.1:3000/callback", Open: func(ctx context.Context, page string) (string, error) {
			p.asked.Add(1)
			return p.browser.Authorize(ctx, page)
		}},
	}
}

// revoke revokes the grant of the user at the issuer.
func (p *person) revoke(w *realm) {
	w.t.Helper()
	keys, err := p.store.Keys(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	form := url.Values{}
	var known struct {
		Refresh string `json:"refresh_token"`
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
	}
	for _, key := range keys {
		raw, err := p.store.Load(w.t.Context(), key)
		if err != nil || !strings.HasPrefix(key, "token ") && !strings.HasPrefix(key, "client ") {
			continue
		}
		if err := json.Unmarshal(raw, &known); err != nil {
			w.t.Fatalf("%s: %v", key, err)
		}
	}
	form.Set("token", known.Refresh)
	form.Set("client_id", known.ID)
	if known.Secret != "" {
		form.Set("client_secret", known.Secret)
	}
	response, err := http.PostForm(w.issuer.URL()+"/revoke", form)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || known.Refresh == "" {
		w.t.Fatalf("revocation: %s", response.Status)
	}
}

// dial connects a client with a revision and an authorizer.
func (w *realm) dial(t *testing.T, r mcp.Revision, a client.Authorizer, configure ...func(*client.Dialer)) (*client.Client, error) {
	tp := &tap{t: t, revision: r, transport: httpTransport(r), methods: make(map[jsonrpc.ID]string), seen: make(map[string]int)}
	d := client.Dialer{Auth: a, Trace: tp.message, Logger: slog.New(slog.DiscardHandler)}
	mcptest.WithRevision(r)(&d)
	for _, f := range configure {
		f(&d)
	}
	c, err := d.Dial(t.Context(), client.URL(w.url))
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func (w *realm) mustDial(t *testing.T, r mcp.Revision, a client.Authorizer, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	c, err := w.dial(t, r, a, configure...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// httpTransport returns the name of the HTTP transport of a revision.
func httpTransport(r mcp.Revision) string {
	for _, tr := range mcptest.Transports() {
		if strings.HasPrefix(tr.Name, "http") && tr.Supports(r) {
			return tr.Name
		}
	}
	return ""
}

// guardedEverywhere runs f with a realm in every revision, over its HTTP transport.
func guardedEverywhere(t *testing.T, s func() *server.Server, f func(t *testing.T, r mcp.Revision, w *realm), configure ...func(*realmConfig)) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r)+"/"+httpTransport(r), func(t *testing.T) { f(t, r, newRealm(t, s(), configure...)) })
	}
}
