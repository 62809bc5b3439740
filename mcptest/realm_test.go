package mcptest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
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
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
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
	url    string           // the endpoint, which is also the audience
	proxy  *logintest.Proxy // between clients and the issuer

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
	issuer := must.Get(devissuer.Start(config.issuer))(t)
	w := &realm{t: t, issuer: issuer, server: s, proxy: logintest.NewProxy(), received: make(map[string]bool), rejected: make(map[string]bool),
		sessions: make(map[string]bool)}
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	endpoint.Config.ErrorLog = slog.NewLogLogger(s.Logger.Handler(), slog.LevelError)
	w.url = "http://" + endpoint.Listener.Addr().String() + "/mcp"
	issued := w.proxy.Verifier(&jwt.Verifier{Issuers: []string{issuer.URL()}})
	s.Auth = jwt.Protect(&config.resource)
	s.Auth.URI, s.Auth.Issuers = w.url, []string{issuer.URL()}
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
		w.proxy.Close()
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
	token := must.Get(w.issuer.Token(user, w.url, append(scopes, "mcp")...))(w.t)
	return token
}

// person is a user with a browser and a store of tokens.
type person struct {
	realm   *realm
	browser logintest.Browser
	store   tokenstore.Memory
	asked   atomic.Int64 // the number of logins
}

// program returns the OAuth client of a program of the user. All programs share the store.
func (p *person) program() *oauth.Client {
	return &oauth.Client{
		Store:  &p.store,
		Proxy:  p.realm.proxy.Of,
		Logger: slog.New(slog.DiscardHandler),
		Interaction: &logintest.Interaction{RedirectURI: "http://127.0.0.1:3000/callback",
			Open: func(ctx context.Context, page string) (string, error) {
				p.asked.Add(1)
				return p.browser.Authorize(ctx, page)
			}},
	}
}

// dial connects a client with a revision and an authorizer.
func (w *realm) dial(t *testing.T, r mcp.Revision, a client.Authorizer,
	configure ...func(*client.Dialer)) (*client.Client, error) {
	tp := &tap{t: t, revision: r, transport: httpTransport(r), methods: make(map[jsonrpc.ID]string),
		seen: make(map[string]int)}
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

func (w *realm) mustDial(t *testing.T, r mcp.Revision, a client.Authorizer,
	configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	c := must.Get(w.dial(t, r, a, configure...))(t)
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
func guardedEverywhere(t *testing.T, s func() *server.Server, f func(t *testing.T, r mcp.Revision, w *realm),
	configure ...func(*realmConfig)) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r)+"/"+httpTransport(r), func(t *testing.T) { f(t, r, newRealm(t, s(), configure...)) })
	}
}

// wiretap is a proxy for all traffic of a test. It recognizes the secrets in the traffic, so
// that the test searches for real secrets.
type wiretap struct {
	proxy *httptest.Server

	mu     sync.Mutex
	passed []*exchanged
	cut    func(*http.Request) bool // reports whether to close the connection without a response
}

// exchanged is a request with its response.
type exchanged struct {
	method, url    string
	header         http.Header
	body           string
	responseHeader http.Header
	mu             sync.Mutex
	responseBody   bytes.Buffer
	authorization  bool // the receiver is the issuer or the redirect URI, not the MCP server
}

// newWiretap returns a proxy in front of next.
func newWiretap(t *testing.T, next *logintest.Proxy) *wiretap {
	w := &wiretap{}
	forward := &http.Transport{DisableKeepAlives: true, Proxy: next.Of}
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // the URL is already absolute
		Transport:     forward,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			x := r.Request.Context().Value(w).(*exchanged)
			x.responseHeader = r.Header.Clone()
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, x), r.Body}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	w.proxy = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		x := &exchanged{method: r.Method, url: r.URL.String(), header: r.Header.Clone(), body: string(body),
			responseHeader: http.Header{}}
		x.authorization = !strings.HasPrefix(r.URL.Path, "/mcp")
		w.mu.Lock()
		w.passed = append(w.passed, x)
		cut := w.cut != nil && w.cut(r)
		w.mu.Unlock()
		if cut {
			panic(http.ErrAbortHandler)
		}
		reverse.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), w, x)))
	}))
	w.proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.proxy.Start()
	t.Cleanup(func() {
		w.proxy.CloseClientConnections()
		w.proxy.Close()
	})
	return w
}

// Write records a part of the body of the response.
func (x *exchanged) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.responseBody.Write(p)
}

func (x *exchanged) response() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.responseBody.String()
}

// url returns the URL of the proxy.
func (w *wiretap) url() *url.URL {
	u, err := url.Parse(w.proxy.URL)
	if err != nil {
		panic(err)
	}
	return u
}

// transport returns a transport that uses the proxy, also for addresses of the loopback interface.
func (w *wiretap) transport(t *testing.T) *http.Transport {
	tr := &http.Transport{Proxy: http.ProxyURL(w.url())}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// cutting makes the proxy close the connections of matching requests without a response. Nil ends that.
func (w *wiretap) cutting(which func(*http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = which
}

func (w *wiretap) all() []*exchanged {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.passed)
}

// The kinds of secrets.
const (
	accessToken  = "access token"
	refreshToken = "refresh token"
	codeGranted  = "authorization code"
	loginState   = "state"
	codeVerifier = "PKCE verifier"
	clientSecret = "client secret"
	cookie       = "cookie"
	sessionID    = "session id"
	eventID      = "event id"
	requestState = "requestState"
	aProof       = "proof of possession"
)

// secretIn matches secrets in texts: messages, documents and pages.
var secretIn = []struct {
	kind string
	in   *regexp.Regexp
}{
	{accessToken, regexp.MustCompile(`"access_token":\s*"([^"]+)"`)},
	{refreshToken, regexp.MustCompile(`"refresh_token":\s*"([^"]+)"`)},
	{clientSecret, regexp.MustCompile(`"client_secret":\s*"([^"]+)"`)},
	{requestState, regexp.MustCompile(`"requestState":\s*"([^"]+)"`)},
	{eventID, regexp.MustCompile(`(?m)^id: ([^.\n]+)`)},
	{sessionID, regexp.MustCompile(`sessionId=([A-Za-z0-9_-]+)`)},
}

// secretParameters are the names of parameters of forms and queries with secrets.
var secretParameters = map[string]string{
	"code": codeGranted, "state": loginState, "code_verifier": codeVerifier, "refresh_token": refreshToken,
	"client_secret": clientSecret, "access_token": accessToken, "sessionId": sessionID,
}

// secrets returns all secrets that have passed the proxy, with their kinds.
func (w *wiretap) secrets() map[string]string {
	found := make(map[string]string)
	note := func(kind, value string) {
		if len(value) >= 8 { // shorter values occur by chance
			found[value] = kind
		}
	}
	parameters := func(raw string) {
		values, _ := url.ParseQuery(raw)
		for name, kind := range secretParameters {
			for _, value := range values[name] {
				note(kind, value)
			}
		}
	}
	for _, x := range w.all() {
		scheme, credentials, _ := strings.Cut(x.header.Get("Authorization"), " ")
		if scheme == "Basic" {
			note(clientSecret, credentials)
			decoded, _ := base64.StdEncoding.DecodeString(credentials)
			_, secret, _ := strings.Cut(string(decoded), ":")
			note(clientSecret, secret)
		} else {
			note(accessToken, credentials)
		}
		note(aProof, x.header.Get("Dpop"))
		for _, h := range []http.Header{x.header, x.responseHeader} {
			note(sessionID, h.Get("Mcp-Session-Id"))
		}
		name, _, _ := strings.Cut(x.header.Get("Last-Event-Id"), ".")
		note(eventID, name)
		request, response := http.Request{Header: x.header}, http.Response{Header: x.responseHeader}
		for _, c := range append(request.Cookies(), response.Cookies()...) {
			note(cookie, c.Value)
		}
		for _, address := range []string{x.url, x.responseHeader.Get("Location")} {
			_, query, _ := strings.Cut(address, "?")
			parameters(query)
		}
		parameters(x.body)
		for _, text := range []string{x.body, x.response()} {
			for _, s := range secretIn {
				for _, match := range s.in.FindAllStringSubmatch(text, -1) {
					note(s.kind, match[1])
				}
			}
		}
	}
	return found
}

// leaks returns the kinds of the secrets of which text contains a half, except for allowed kinds.
func leaks(text string, secrets map[string]string, allowed ...string) (kinds []string) {
	for secret, kind := range secrets {
		if slices.Contains(allowed, kind) || slices.Contains(kinds, kind) {
			continue
		}
		for _, part := range halves(secret) {
			if strings.Contains(text, part) {
				kinds = append(kinds, kind)
				break
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// halves returns the halves of a secret, so that a truncated secret is found, too. It ignores the
// header of a JSON Web Token, which is not secret.
func halves(secret string) []string {
	if header, rest, ok := strings.Cut(secret, "."); ok && strings.HasPrefix(header, "eyJ") {
		secret = rest
	}
	if len(secret) < 16 {
		return []string{secret}
	}
	return []string{secret[:len(secret)/2], secret[len(secret)/2:]}
}

func TestLeaksFindsPartsOfSecrets(t *testing.T) {
	secrets := map[string]string{"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl": accessToken,
		"hunter2hunter2": clientSecret}
	for text, want := range map[string]string{
		`msg="rejected" token=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl`: accessToken,
		`token=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ`:                             accessToken,
		`token=…ZGEifQ.c2lnbmF0dXJl`:                                                accessToken,
		`secret hunter2hunter2`:                                                     clientSecret,
		`alg eyJhbGciOiJFUzI1NiJ9`:                                                  "",
	} {
		must.CheckEqual(t, strings.Join(leaks(text, secrets), ", "), want, text)
	}
	got := leaks("hunter2hunter2", secrets, clientSecret)
	must.CheckThat(t, got == nil, "leaks reports the allowed kind: %v", got)
}
