package oauthtest

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
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Environment is an MCP server, its authorization server, and an unrelated server, which
// must receive no request. It records all requests. Each test changes one aspect of it.
type Environment struct {
	t                  testing.TB
	MCP, AS, Unrelated *httptest.Server
	Path               string // path of the MCP endpoint
	ResourcePath       string // path of the resource metadata
	IssuerPath         string // path of the metadata of the authorization server
	ChallengeURL       string // resource_metadata of challenges: a path or a URL

	Mu       sync.Mutex
	Seen     []string // "mcp GET /path", "as POST /token", …
	Dialed   []string // addresses that the client dialed
	Queries  []url.Values
	Forms    []url.Values // received by the token endpoint
	Bodies   []string     // received by the registration endpoint
	Log      bytes.Buffer // the client's log
	Issued   int
	Codes    map[string]url.Values // authorization requests, by code
	Valid    map[string]string     // resources, by valid access token
	Refresh  map[string]bool       // valid refresh tokens
	Scope    string                // scope of the first challenge
	Lifetime int                   // lifetime of tokens in seconds

	// ObserveDials, if set, calls observe with each address that a client dials.
	ObserveDials func(c *oauth.Client, observe func(address string))

	// Changes.
	OnResource    func(metadata map[string]any)
	OnIssuer      func(metadata map[string]any)
	OnAuthorize   func(q url.Values, redirect url.Values)
	OnToken       func(form url.Values, body map[string]any)
	ServeMCP      func(w http.ResponseWriter, r *http.Request) bool // reports whether it responded
	ServeAS       func(w http.ResponseWriter, r *http.Request) bool
	Authenticated func(w http.ResponseWriter, r *http.Request) bool // after the token was verified
}

// Only returns a function for environment.serveAS and serveMCP that serves one path.
func Only(path string, h http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			h(rw, r)
		}
		return r.URL.Path == path
	}
}

// Secret is the prefix of all secrets.
const Secret = "s3cr3t-"

func New(t testing.TB) *Environment {
	w := &Environment{
		t: t, Path: "/mcp", Scope: "tools", Lifetime: 3600,
		ResourcePath: "/.well-known/oauth-protected-resource/mcp",
		IssuerPath:   "/.well-known/oauth-authorization-server",
		Codes:        map[string]url.Values{}, Valid: map[string]string{}, Refresh: map[string]bool{},
	}
	w.ChallengeURL = w.ResourcePath
	s := &server.Server{Name: "guarded", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name, nil
	})
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	w.MCP = w.Start("mcp", func(rw http.ResponseWriter, r *http.Request) { w.Resource(rw, r, s) })
	w.AS = w.Start("as", w.Authorization)
	w.Unrelated = w.Start("unrelated", func(rw http.ResponseWriter, r *http.Request) {})
	t.Cleanup(w.checkSecrets)
	return w
}

func (w *Environment) Start(name string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.Mu.Lock()
		w.Seen = append(w.Seen, name+" "+r.Method+" "+r.URL.Path)
		w.Mu.Unlock()
		if name != "as" && strings.Contains(r.URL.RawQuery, Secret) {
			w.t.Errorf("U7: the URL %s contains a secret", r.URL)
		}
		if name == "unrelated" && strings.Contains(fmt.Sprint(r.URL, r.Header, string(body)), Secret) {
			w.t.Errorf("U8: the unrelated server receives a secret: %s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		if name == "mcp" && r.URL.Path != "/token" && !isToken(r.Header.Get("Authorization")) {
			w.t.Errorf("U8: the MCP server receives %q", r.Header.Get("Authorization"))
		}
		if name == "mcp" && r.URL.Path == w.Path && bytes.Contains(body, []byte(Secret)) {
			w.t.Errorf("R3: a message contains a secret: %s", body)
		}
		h(rw, r)
	}))
	w.t.Cleanup(s.Close)
	return s
}

// isToken reports whether an Authorization header is empty or contains an access token and no other secret.
func isToken(header string) bool {
	_, token, _ := strings.Cut(header, " ")
	return header == "" || strings.HasPrefix(token, Secret+"access-")
}

func (w *Environment) URL() string { return w.MCP.URL + w.Path }

func (w *Environment) JSON(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(v)
}

// Resource serves the resource metadata and, with a valid token, the MCP endpoint.
func (w *Environment) Resource(rw http.ResponseWriter, r *http.Request, s http.Handler) {
	if w.ServeMCP != nil && w.ServeMCP(rw, r) {
		return
	}
	switch r.URL.Path {
	case w.ResourcePath:
		m := map[string]any{"resource": w.URL(), "authorization_servers": []string{w.AS.URL},
			"scopes_supported": []string{"listed"}}
		if w.OnResource != nil {
			w.OnResource(m)
		}
		w.JSON(rw, http.StatusOK, m)
		return
	case w.Path:
	default:
		http.NotFound(rw, r)
		return
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	w.Mu.Lock()
	resource, valid := w.Valid[token]
	w.Mu.Unlock()
	if !valid || resource != w.URL() {
		w.Challenge(rw, http.StatusUnauthorized, "Bearer", w.Scope, "")
		return
	}
	if w.Authenticated != nil && w.Authenticated(rw, r) {
		return
	}
	s.ServeHTTP(rw, r)
}

func (w *Environment) Challenge(rw http.ResponseWriter, status int, scheme, scope, code string) {
	c := scheme + ` realm="x"`
	if w.ChallengeURL != "" {
		metadata := w.ChallengeURL
		if strings.HasPrefix(metadata, "/") {
			metadata = w.MCP.URL + metadata
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

func (w *Environment) Authorization(rw http.ResponseWriter, r *http.Request) {
	if w.ServeAS != nil && w.ServeAS(rw, r) {
		return
	}
	base := w.AS.URL
	switch r.URL.Path {
	case w.IssuerPath:
		m := map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
			"registration_endpoint": base + "/register", "revocation_endpoint": base + "/revoke",
			"code_challenge_methods_supported":               []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported":          []string{"client_secret_basic"},
		}
		if w.OnIssuer != nil {
			w.OnIssuer(m)
		}
		w.JSON(rw, http.StatusOK, m)
	case "/register":
		body, _ := io.ReadAll(r.Body)
		w.Mu.Lock()
		w.Bodies = append(w.Bodies, string(body))
		w.Mu.Unlock()
		w.JSON(rw, http.StatusCreated, map[string]any{"client_id": "client", "client_secret": Secret + "client",
			"token_endpoint_auth_method": "client_secret_basic"})
	case "/authorize":
		w.Authorize(rw, r.URL.Query())
	case "/token":
		r.ParseForm()
		w.Token(rw, r)
	case "/revoke":
	default:
		http.NotFound(rw, r)
	}
}

func (w *Environment) Authorize(rw http.ResponseWriter, q url.Values) {
	w.Mu.Lock()
	w.Issued++
	code := fmt.Sprintf("%scode-%d", Secret, w.Issued)
	w.Codes[code] = q
	w.Queries = append(w.Queries, q)
	w.Mu.Unlock()
	redirect := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {w.AS.URL}}
	if w.OnAuthorize != nil {
		w.OnAuthorize(q, redirect)
	}
	rw.Header().Set("Location", q.Get("redirect_uri")+"?"+redirect.Encode())
	rw.WriteHeader(http.StatusFound)
}

// Token verifies a token request and issues tokens.
func (w *Environment) Token(rw http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	w.Mu.Lock()
	w.Forms = append(w.Forms, form)
	request, known := w.Codes[form.Get("code")]
	delete(w.Codes, form.Get("code"))
	refresh := w.Refresh[form.Get("refresh_token")]
	delete(w.Refresh, form.Get("refresh_token"))
	w.Mu.Unlock()
	fail := func(code string) {
		w.JSON(rw, http.StatusBadRequest, map[string]any{"error": code,
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
	w.Mu.Lock()
	w.Issued++
	access, next := fmt.Sprintf("%saccess-%d", Secret, w.Issued), fmt.Sprintf("%srefresh-%d", Secret, w.Issued)
	w.Valid[access], w.Refresh[next] = form.Get("resource"), true
	body := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": w.Lifetime,
		"refresh_token": next}
	w.Mu.Unlock()
	if w.OnToken != nil {
		w.OnToken(form, body)
	}
	status := http.StatusOK
	if body["error"] != nil {
		status = http.StatusBadRequest
	}
	w.JSON(rw, status, body)
}

// RevokeAll invalidates all access tokens.
func (w *Environment) RevokeAll() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	clear(w.Valid)
}

// User returns an Interaction that follows the authorization page's redirect.
func (w *Environment) User() oauth.Interaction {
	return &logintest.Interaction{RedirectURI: "http://localhost:3000/callback",
		Open: func(ctx context.Context, url string) (string, error) {
			return OpenPage(ctx, url)
		}}
}

// OpenPage requests a page and returns the URL that it redirects to.
func OpenPage(ctx context.Context, url string) (string, error) {
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

// Client returns a client whose connections and logs are recorded.
func (w *Environment) Client() *oauth.Client {
	c := &oauth.Client{Interaction: w.User(), Logger: slog.New(slog.NewTextHandler(lockedWriter{w},
		&slog.HandlerOptions{Level: slog.LevelDebug}))}
	w.Record(c)
	return c
}

func (w *Environment) Record(c *oauth.Client) {
	if w.ObserveDials == nil {
		return
	}
	w.ObserveDials(c, func(address string) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Dialed = append(w.Dialed, address)
	})
}

type lockedWriter struct{ w *Environment }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.Mu.Lock()
	defer l.w.Mu.Unlock()
	return l.w.Log.Write(p)
}

// Dial connects to the MCP server and calls its tool.
func (w *Environment) Dial(auth client.Authorizer, revision mcp.Revision) (*client.Client, error) {
	w.t.Helper()
	d := client.Dialer{Auth: auth, Revision: revision, Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, nil))}
	c, err := d.Dial(context.Background(), client.URL(w.URL()))
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { c.Close() })
	return c, w.Greet(c)
}

func (w *Environment) Greet(c *client.Client) error {
	text, err := client.CallTool[string](context.Background(), c, "greet", map[string]string{"name": "Ada"})
	if err == nil && text != "Hello, Ada" {
		err = fmt.Errorf("the tool returned %q", text)
	}
	return err
}

// Count returns how many requests there were, such as "as POST /token".
func (w *Environment) Count(request string) (n int) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, s := range w.Seen {
		if s == request {
			n++
		}
	}
	return n
}

func (w *Environment) Paths(server string) (all []string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, s := range w.Seen {
		if rest, ok := strings.CutPrefix(s, server+" GET "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// checkSecrets runs at the end of each test. It checks that the log contains no secret and
// that the client dialed no other servers.
func (w *Environment) checkSecrets() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if strings.Contains(w.Log.String(), Secret) {
		w.t.Errorf("R6, O14: the log contains a secret:\n%s", w.Log.String())
	}
	for _, address := range w.Dialed {
		if !slices.Contains([]string{"http://" + address}, w.MCP.URL) && "http://"+address != w.AS.URL {
			w.t.Errorf("O12: the client dialed %s", address)
		}
	}
	for _, s := range w.Seen {
		if strings.HasPrefix(s, "unrelated") {
			w.t.Errorf("O4: the unrelated server received %s", s)
		}
	}
}

// RejectResource makes the authorization server reject requests with the parameter resource, as Microsoft Entra ID
// does, and issue tokens for the server without it.
func (w *Environment) RejectResource(code, description string) {
	w.OnAuthorize = func(q, redirect url.Values) {
		if q.Has("resource") {
			redirect.Del("code")
			redirect.Set("error", code)
			redirect.Set("error_description", description)
		}
	}
	w.OnToken = func(form url.Values, body map[string]any) {
		if form.Has("resource") {
			body["error"], body["error_description"] = code, description
			return
		}
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Valid[body["access_token"].(string)] = w.URL()
	}
}

// Record records the steps of c as texts, which are complete when no request of c is in flight.
func Record(c *oauth.Client) *[]string {
	var mu sync.Mutex
	steps := new([]string)
	r := &trace.Recorder{Record: func(s trace.Step) {
		mu.Lock()
		defer mu.Unlock()
		*steps = append(*steps, fmt.Sprintf("%s: %s %s %v %s -> %d %v %s %v",
			s.Name, s.Method, s.URL, s.RequestHeader, s.RequestBody, s.Status, s.ResponseHeader, s.ResponseBody, s.Err))
	}}
	c.Wrap, c.Interaction = r.Wrap, r.Interaction(c.Interaction)
	return steps
}
