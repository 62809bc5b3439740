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

// world is an MCP server, its authorization server, and a bystander that nobody has
// any business with. All that they see and say is written down. Each misbehaviour is
// one change to it.
type world struct {
	t                     testing.TB
	mcp, as, bystander    *httptest.Server
	path                  string // of the MCP endpoint
	prmAt, metaAt, hintAt string // paths of metadata; hintAt may be a URL

	mu       sync.Mutex
	seen     []string // "mcp GET /path", "as POST /token", …
	egress   []string // addresses that were connected to
	queries  []url.Values
	forms    []url.Values // at the token endpoint
	bodies   []string     // at the registration endpoint
	log      bytes.Buffer // of the client
	issued   int
	codes    map[string]url.Values // by code: the request
	valid    map[string]string     // tokens by the resource they are for
	refresh  map[string]bool       // refresh tokens that are good
	scope    string                // that the first challenge names
	lifetime int                   // of tokens in seconds

	// Changes.
	prm, meta     func(map[string]any)
	onAuthorize   func(q url.Values, callback url.Values)           // changes the answer
	onToken       func(form url.Values, answer map[string]any)      // changes the answer
	serveMCP      func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	serveAS       func(w http.ResponseWriter, r *http.Request) bool
	authenticated func(w http.ResponseWriter, r *http.Request) bool // after the token was found good
}

// secret begins everything that must not get around.
const secret = "s3cr3t-"

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, path: "/mcp", scope: "tools", lifetime: 3600,
		prmAt: "/.well-known/oauth-protected-resource/mcp", metaAt: "/.well-known/oauth-authorization-server",
		codes: map[string]url.Values{}, valid: map[string]string{}, refresh: map[string]bool{},
	}
	w.hintAt = w.prmAt
	s := &server.Server{Name: "guarded", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name, nil
	})
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	w.mcp = w.start("mcp", func(rw http.ResponseWriter, r *http.Request) { w.resource(rw, r, s) })
	w.as = w.start("as", w.authorization)
	w.bystander = w.start("bystander", func(rw http.ResponseWriter, r *http.Request) {})
	t.Cleanup(w.checkSecrets)
	return w
}

func (w *world) start(name string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.seen = append(w.seen, name+" "+r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		if name != "as" && strings.Contains(r.URL.RawQuery, secret) {
			w.t.Errorf("U7: a secret in the URL %s", r.URL)
		}
		if name == "bystander" && strings.Contains(fmt.Sprint(r.URL, r.Header, string(body)), secret) {
			w.t.Errorf("U8: a secret gets to a bystander: %s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		if name == "mcp" && r.URL.Path != "/token" && !isToken(r.Header.Get("Authorization")) {
			w.t.Errorf("U8: to the MCP server goes %q", r.Header.Get("Authorization"))
		}
		if name == "mcp" && r.URL.Path == w.path && bytes.Contains(body, []byte(secret)) {
			w.t.Errorf("R3: a secret in a message: %s", body)
		}
		h(rw, r)
	}))
	w.t.Cleanup(s.Close)
	return s
}

// isToken: no code, secret or refresh token gets to an MCP server.
func isToken(header string) bool {
	_, token, _ := strings.Cut(header, " ")
	return header == "" || strings.HasPrefix(token, secret+"access-")
}

func (w *world) url() string { return w.mcp.URL + w.path }

func (w *world) json(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(v)
}

// resource is the MCP server: its metadata, and what a token opens.
func (w *world) resource(rw http.ResponseWriter, r *http.Request, s http.Handler) {
	if w.serveMCP != nil && w.serveMCP(rw, r) {
		return
	}
	switch r.URL.Path {
	case w.prmAt:
		m := map[string]any{"resource": w.url(), "authorization_servers": []string{w.as.URL}, "scopes_supported": []string{"listed"}}
		if w.prm != nil {
			w.prm(m)
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
	resource, good := w.valid[token]
	w.mu.Unlock()
	if !good || resource != w.url() {
		w.challenge(rw, http.StatusUnauthorized, "Bearer", w.scope, "")
		return
	}
	if w.authenticated != nil && w.authenticated(rw, r) {
		return
	}
	s.ServeHTTP(rw, r)
}

func (w *world) challenge(rw http.ResponseWriter, status int, scheme, scope, code string) {
	c := scheme + ` realm="x"`
	if w.hintAt != "" {
		hint := w.hintAt
		if strings.HasPrefix(hint, "/") {
			hint = w.mcp.URL + hint
		}
		c += fmt.Sprintf(`, resource_metadata="%s"`, hint)
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

func (w *world) authorization(rw http.ResponseWriter, r *http.Request) {
	if w.serveAS != nil && w.serveAS(rw, r) {
		return
	}
	base := w.as.URL
	switch r.URL.Path {
	case w.metaAt:
		m := map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
			"registration_endpoint": base + "/register", "revocation_endpoint": base + "/revoke",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		}
		if w.meta != nil {
			w.meta(m)
		}
		w.json(rw, http.StatusOK, m)
	case "/register":
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.bodies = append(w.bodies, string(body))
		w.mu.Unlock()
		w.json(rw, http.StatusCreated, map[string]any{"client_id": "client", "client_secret": secret + "client", "token_endpoint_auth_method": "client_secret_basic"})
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

func (w *world) authorize(rw http.ResponseWriter, q url.Values) {
	w.mu.Lock()
	w.issued++
	code := fmt.Sprintf("%scode-%d", secret, w.issued)
	w.codes[code] = q
	w.queries = append(w.queries, q)
	w.mu.Unlock()
	callback := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {w.as.URL}}
	if w.onAuthorize != nil {
		w.onAuthorize(q, callback)
	}
	rw.Header().Set("Location", q.Get("redirect_uri")+"?"+callback.Encode())
	rw.WriteHeader(http.StatusFound)
}

// token checks what an authorization server checks.
func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	w.mu.Lock()
	w.forms = append(w.forms, form)
	asked, known := w.codes[form.Get("code")]
	delete(w.codes, form.Get("code"))
	refresh := w.refresh[form.Get("refresh_token")]
	delete(w.refresh, form.Get("refresh_token"))
	w.mu.Unlock()
	refuse := func(code string) {
		w.json(rw, http.StatusBadRequest, map[string]any{"error": code, "error_description": "you sent " + fmt.Sprint(form)})
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		digest := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !known || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(digest[:]) || asked.Get("code_challenge_method") != "S256" {
			refuse("invalid_grant")
			return
		}
	case "refresh_token":
		if !refresh {
			refuse("invalid_grant")
			return
		}
	}
	w.mu.Lock()
	w.issued++
	access, next := fmt.Sprintf("%saccess-%d", secret, w.issued), fmt.Sprintf("%srefresh-%d", secret, w.issued)
	w.valid[access], w.refresh[next] = form.Get("resource"), true
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": w.lifetime, "refresh_token": next}
	w.mu.Unlock()
	if w.onToken != nil {
		w.onToken(form, answer)
	}
	status := http.StatusOK
	if answer["error"] != nil {
		status = http.StatusBadRequest
	}
	w.json(rw, status, answer)
}

// revokeAll makes every token one that is not good any more.
func (w *world) revokeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.valid)
}

// user is a browser that goes where it is told, without coming back.
func (w *world) user() oauth.Interaction {
	return &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(ctx context.Context, url string) (string, error) {
		return visit(ctx, url)
	}}
}

func visit(ctx context.Context, url string) (string, error) {
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

// client is one that logs in here, and whose every connection and word is written down.
func (w *world) client() *oauth.Client {
	c := &oauth.Client{Interaction: w.user(), Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	w.watch(c)
	return c
}

func (w *world) watch(c *oauth.Client) {
	oauth.ObserveDials(c, func(address string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.egress = append(w.egress, address)
	})
}

type lockedWriter struct{ w *world }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

// dial connects to the MCP server and calls its tool.
func (w *world) dial(auth client.Authorizer, revision mcp.Revision) (*client.Client, error) {
	w.t.Helper()
	d := client.Dialer{Auth: auth, Revision: revision, Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, nil))}
	c, err := d.Dial(context.Background(), client.URL(w.url()))
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { c.Close() })
	return c, w.greet(c)
}

func (w *world) greet(c *client.Client) error {
	text, err := client.CallTool[string](context.Background(), c, "greet", map[string]string{"name": "Ada"})
	if err == nil && text != "Hello, Ada" {
		err = fmt.Errorf("the tool says %q", text)
	}
	return err
}

// count is how often something was seen, such as "as POST /token".
func (w *world) count(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s == what {
			n++
		}
	}
	return n
}

func (w *world) paths(server string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if rest, ok := strings.CutPrefix(s, server+" GET "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// checkSecrets is the end of every test: what was logged holds no secret, and nobody
// was connected to but those who take part.
func (w *world) checkSecrets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.log.String(), secret) {
		w.t.Errorf("R6, O14: a secret is in the log:\n%s", w.log.String())
	}
	for _, address := range w.egress {
		if !slices.Contains([]string{"http://" + address}, w.mcp.URL) && "http://"+address != w.as.URL {
			w.t.Errorf("O12: a connection to %s", address)
		}
	}
	for _, s := range w.seen {
		if strings.HasPrefix(s, "bystander") {
			w.t.Errorf("O4: somebody else was asked: %s", s)
		}
	}
}
