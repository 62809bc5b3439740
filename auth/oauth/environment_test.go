package oauth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// environment is an MCP server, its authorization server, and an unrelated server, which
// must receive no request. It records all requests. Each test changes one aspect of it.
type environment struct {
	t                  testing.TB
	mcp, as, unrelated *httptest.Server
	path               string // path of the MCP endpoint
	resourcePath       string // path of the resource metadata
	issuerPath         string // path of the metadata of the authorization server
	challengeURL       string // resource_metadata of challenges: a path or a URL

	mu       sync.Mutex
	seen     []string // "mcp GET /path", "as POST /token", …
	dialed   []string // addresses that the client dialed
	queries  []url.Values
	forms    []url.Values // at the token endpoint
	bodies   []string     // at the registration endpoint
	log      bytes.Buffer // the client's log
	issued   int
	codes    map[string]url.Values // authorization requests by code
	valid    map[string]string     // resources by valid access token
	refresh  map[string]bool       // valid refresh tokens
	scope    string                // scope of the first challenge
	lifetime int                   // lifetime of tokens in seconds

	// Changes.
	onResource    func(metadata map[string]any)
	onIssuer      func(metadata map[string]any)
	onAuthorize   func(q url.Values, redirect url.Values)
	onToken       func(form url.Values, body map[string]any)
	serveMCP      func(w http.ResponseWriter, r *http.Request) bool // reports whether it responded
	serveAS       func(w http.ResponseWriter, r *http.Request) bool
	authenticated func(w http.ResponseWriter, r *http.Request) bool // after the token was verified
}

// only returns a function for environment.serveAS and serveMCP that serves one path.
func only(path string, h http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			h(rw, r)
		}
		return r.URL.Path == path
	}
}

// secret is the prefix of all secrets.
const secret = "s3cr3t-"

func newEnvironment(t testing.TB) *environment {
	w := &environment{
		t: t, path: "/mcp", scope: "tools", lifetime: 3600,
		resourcePath: "/.well-known/oauth-protected-resource/mcp",
		issuerPath:   "/.well-known/oauth-authorization-server",
		codes:        map[string]url.Values{}, valid: map[string]string{}, refresh: map[string]bool{},
	}
	w.challengeURL = w.resourcePath
	s := &server.Server{Name: "guarded", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name, nil
	})
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	w.mcp = w.start("mcp", func(rw http.ResponseWriter, r *http.Request) { w.resource(rw, r, s) })
	w.as = w.start("as", w.authorization)
	w.unrelated = w.start("unrelated", func(rw http.ResponseWriter, r *http.Request) {})
	t.Cleanup(w.checkSecrets)
	return w
}

func (w *environment) start(name string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.seen = append(w.seen, name+" "+r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		if name != "as" && strings.Contains(r.URL.RawQuery, secret) {
			w.t.Errorf("U7: the URL %s contains a secret", r.URL)
		}
		if name == "unrelated" && strings.Contains(fmt.Sprint(r.URL, r.Header, string(body)), secret) {
			w.t.Errorf("U8: the unrelated server receives a secret: %s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		if name == "mcp" && r.URL.Path != "/token" && !isToken(r.Header.Get("Authorization")) {
			w.t.Errorf("U8: the MCP server receives %q", r.Header.Get("Authorization"))
		}
		if name == "mcp" && r.URL.Path == w.path && bytes.Contains(body, []byte(secret)) {
			w.t.Errorf("R3: a message contains a secret: %s", body)
		}
		h(rw, r)
	}))
	w.t.Cleanup(s.Close)
	return s
}

// isToken reports whether an Authorization header is empty or has an access token, and no other secret.
func isToken(header string) bool {
	_, token, _ := strings.Cut(header, " ")
	return header == "" || strings.HasPrefix(token, secret+"access-")
}

func (w *environment) url() string { return w.mcp.URL + w.path }

func (w *environment) json(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(v)
}

// resource serves the resource metadata and, with a valid token, the MCP endpoint.
func (w *environment) resource(rw http.ResponseWriter, r *http.Request, s http.Handler) {
	if w.serveMCP != nil && w.serveMCP(rw, r) {
		return
	}
	switch r.URL.Path {
	case w.resourcePath:
		m := map[string]any{"resource": w.url(), "authorization_servers": []string{w.as.URL},
			"scopes_supported": []string{"listed"}}
		if w.onResource != nil {
			w.onResource(m)
		}
		w.json(rw, http.StatusOK, m)
		return
	case w.path:
	default:
		http.NotFound(rw, r)
		return
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	w.mu.Lock()
	resource, valid := w.valid[token]
	w.mu.Unlock()
	if !valid || resource != w.url() {
		w.challenge(rw, http.StatusUnauthorized, "Bearer", w.scope, "")
		return
	}
	if w.authenticated != nil && w.authenticated(rw, r) {
		return
	}
	s.ServeHTTP(rw, r)
}

func (w *environment) challenge(rw http.ResponseWriter, status int, scheme, scope, code string) {
	c := scheme + ` realm="x"`
	if w.challengeURL != "" {
		metadata := w.challengeURL
		if strings.HasPrefix(metadata, "/") {
			metadata = w.mcp.URL + metadata
		}
		c += fmt.Sprintf(`, resource_metadata="%s"`, metadata)
	}
	if scope != "" {
		c += fmt.Sprintf(`, scope="%s"`, scope)
	}
	if code != "" {
		c += fmt.Sprintf(`, error="%s"`, code)
	}
	rw.Header().Set("WWW-Authenticate", c)
	rw.WriteHeader(status)
}

func (w *environment) authorization(rw http.ResponseWriter, r *http.Request) {
	if w.serveAS != nil && w.serveAS(rw, r) {
		return
	}
	base := w.as.URL
	switch r.URL.Path {
	case w.issuerPath:
		m := map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
			"registration_endpoint": base + "/register", "revocation_endpoint": base + "/revoke",
			"code_challenge_methods_supported":               []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported":          []string{"client_secret_basic"},
		}
		if w.onIssuer != nil {
			w.onIssuer(m)
		}
		w.json(rw, http.StatusOK, m)
	case "/register":
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.bodies = append(w.bodies, string(body))
		w.mu.Unlock()
		w.json(rw, http.StatusCreated, map[string]any{"client_id": "client", "client_secret": secret + "client",
			"token_endpoint_auth_method": "client_secret_basic"})
	case "/authorize":
		w.authorize(rw, r.URL.Query())
	case "/token":
		r.ParseForm()
		w.token(rw, r)
	case "/revoke":
	default:
		http.NotFound(rw, r)
	}
}

func (w *environment) authorize(rw http.ResponseWriter, q url.Values) {
	w.mu.Lock()
	w.issued++
	code := fmt.Sprintf("%scode-%d", secret, w.issued)
	w.codes[code] = q
	w.queries = append(w.queries, q)
	w.mu.Unlock()
	redirect := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {w.as.URL}}
	if w.onAuthorize != nil {
		w.onAuthorize(q, redirect)
	}
	rw.Header().Set("Location", q.Get("redirect_uri")+"?"+redirect.Encode())
	rw.WriteHeader(http.StatusFound)
}

// token verifies a token request and issues tokens.
func (w *environment) token(rw http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	w.mu.Lock()
	w.forms = append(w.forms, form)
	request, known := w.codes[form.Get("code")]
	delete(w.codes, form.Get("code"))
	refresh := w.refresh[form.Get("refresh_token")]
	delete(w.refresh, form.Get("refresh_token"))
	w.mu.Unlock()
	fail := func(code string) {
		w.json(rw, http.StatusBadRequest, map[string]any{"error": code,
			"error_description": "you sent " + fmt.Sprint(form)})
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		digest := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !known || request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(digest[:]) ||
			request.Get("code_challenge_method") != "S256" {
			fail("invalid_grant")
			return
		}
	case "refresh_token":
		if !refresh {
			fail("invalid_grant")
			return
		}
	}
	w.mu.Lock()
	w.issued++
	access, next := fmt.Sprintf("%saccess-%d", secret, w.issued), fmt.Sprintf("%srefresh-%d", secret, w.issued)
	w.valid[access], w.refresh[next] = form.Get("resource"), true
	body := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": w.lifetime,
		"refresh_token": next}
	w.mu.Unlock()
	if w.onToken != nil {
		w.onToken(form, body)
	}
	status := http.StatusOK
	if body["error"] != nil {
		status = http.StatusBadRequest
	}
	w.json(rw, status, body)
}

// revokeAll invalidates all access tokens.
func (w *environment) revokeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.valid)
}

// user returns an Interaction that follows the authorization page's redirect.
func (w *environment) user() oauth.Interaction {
	return &oauth.Manual{RedirectURI: "http://localhost:3000/callback",
		Open: func(ctx context.Context, url string) (string, error) {
			return openPage(ctx, url)
		}}
}

// openPage requests a page and returns the URL that it redirects to.
func openPage(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	browser := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := browser.Do(req)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return resp.Header.Get("Location"), nil
}

// client returns a client whose connections and logs are recorded.
func (w *environment) client() *oauth.Client {
	c := &oauth.Client{Interaction: w.user(), Logger: slog.New(slog.NewTextHandler(lockedWriter{w},
		&slog.HandlerOptions{Level: slog.LevelDebug}))}
	w.record(c)
	return c
}

func (w *environment) record(c *oauth.Client) {
	oauth.ObserveDials(c, func(address string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dialed = append(w.dialed, address)
	})
}

type lockedWriter struct{ w *environment }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

// dial connects to the MCP server and calls its tool.
func (w *environment) dial(auth client.Authorizer, revision mcp.Revision) (*client.Client, error) {
	w.t.Helper()
	d := client.Dialer{Auth: auth, Revision: revision, Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, nil))}
	c, err := d.Dial(context.Background(), client.URL(w.url()))
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { c.Close() })
	return c, w.greet(c)
}

func (w *environment) greet(c *client.Client) error {
	text, err := client.CallTool[string](context.Background(), c, "greet", map[string]string{"name": "Ada"})
	if err == nil && text != "Hello, Ada" {
		err = fmt.Errorf("the tool returned %q", text)
	}
	return err
}

// count returns how many requests there were, such as "as POST /token".
func (w *environment) count(request string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s == request {
			n++
		}
	}
	return n
}

func (w *environment) paths(server string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if rest, ok := strings.CutPrefix(s, server+" GET "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// checkSecrets runs at the end of each test. It checks that the log contains no secret and
// that the client dialed no other servers.
func (w *environment) checkSecrets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.log.String(), secret) {
		w.t.Errorf("R6, O14: the log contains a secret:\n%s", w.log.String())
	}
	for _, address := range w.dialed {
		if !slices.Contains([]string{"http://" + address}, w.mcp.URL) && "http://"+address != w.as.URL {
			w.t.Errorf("O12: the client dialed %s", address)
		}
	}
	for _, s := range w.seen {
		if strings.HasPrefix(s, "unrelated") {
			w.t.Errorf("O4: the unrelated server received %s", s)
		}
	}
}
