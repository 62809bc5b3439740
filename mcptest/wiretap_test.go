package mcptest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// wiretap is a proxy that all traffic of a test goes through. It knows what a secret is
// when one passes by, so that no part of the test has to make secrets up.
type wiretap struct {
	proxy *httptest.Server

	mu     sync.Mutex
	passed []*exchanged
	cut    func(*http.Request) bool // requests whose connection ends without a response
}

// exchanged is one request with its response.
type exchanged struct {
	method, url   string
	header        http.Header
	body          string
	answer        http.Header
	mu            sync.Mutex
	answered      bytes.Buffer
	authorization bool // the server is one of authorization, or a browser's
}

func newWiretap(t *testing.T) *wiretap {
	w := &wiretap{}
	forward := &http.Transport{DisableKeepAlives: true}
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // the URL is absolute: it leads there
		Transport:     forward,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			x := r.Request.Context().Value(w).(*exchanged)
			x.answer = r.Header.Clone()
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
		x := &exchanged{method: r.Method, url: r.URL.String(), header: r.Header.Clone(), body: string(body), answer: http.Header{}}
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

// Write records a part of the response's body.
func (x *exchanged) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered.Write(p)
}

func (x *exchanged) response() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered.String()
}

// url is what clients are told to go through.
func (w *wiretap) url() *url.URL {
	u, err := url.Parse(w.proxy.URL)
	if err != nil {
		panic(err)
	}
	return u
}

// transport sends everything through the tap, this machine's own addresses too.
func (w *wiretap) transport(t *testing.T) *http.Transport {
	tr := &http.Transport{Proxy: http.ProxyURL(w.url())}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// cutting ends connections instead of answering, until it is told otherwise.
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

// What secrets there are, by kind.
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

// secretIn finds them in texts: messages, documents and pages.
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

// secretParameters are those of forms and queries.
var secretParameters = map[string]string{
	"code": codeGranted, "state": loginState, "code_verifier": codeVerifier, "refresh_token": refreshToken,
	"client_secret": clientSecret, "access_token": accessToken, "sessionId": sessionID,
}

// secrets returns all that have passed by: the kind of each.
func (w *wiretap) secrets() map[string]string {
	found := make(map[string]string)
	note := func(kind, value string) {
		if len(value) >= 8 { // "s1" would be found anywhere
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
		for _, h := range []http.Header{x.header, x.answer} {
			note(sessionID, h.Get("Mcp-Session-Id"))
		}
		name, _, _ := strings.Cut(x.header.Get("Last-Event-Id"), ".")
		note(eventID, name)
		request, response := http.Request{Header: x.header}, http.Response{Header: x.answer}
		for _, c := range append(request.Cookies(), response.Cookies()...) {
			note(cookie, c.Value)
		}
		for _, address := range []string{x.url, x.answer.Get("Location")} {
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

// leaks returns the kinds of the secrets of which text has a telling part, but for those
// that may be there.
func leaks(text string, secrets map[string]string, allowed ...string) (kinds []string) {
	for secret, kind := range secrets {
		if slices.Contains(allowed, kind) || slices.Contains(kinds, kind) {
			continue
		}
		for _, part := range tellingParts(secret) {
			if strings.Contains(text, part) {
				kinds = append(kinds, kind)
				break
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// tellingParts are a secret's halves: a log that shortens it has one of them. What a
// token is signed with, and how, is said by its header, which is no secret.
func tellingParts(secret string) []string {
	if header, rest, ok := strings.Cut(secret, "."); ok && strings.HasPrefix(header, "eyJ") {
		secret = rest
	}
	if len(secret) < 16 {
		return []string{secret}
	}
	return []string{secret[:len(secret)/2], secret[len(secret)/2:]}
}

func TestASecretIsFoundInPart(t *testing.T) {
	secrets := map[string]string{"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl": accessToken, "hunter2hunter2": clientSecret}
	for text, want := range map[string]string{
		`msg="refused" token=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl`: accessToken,
		`token=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ`:                            accessToken,
		`token=…ZGEifQ.c2lnbmF0dXJl`:                                               accessToken,
		`secret hunter2hunter2`:                                                    clientSecret,
		`alg eyJhbGciOiJFUzI1NiJ9`:                                                 "",
	} {
		if got := strings.Join(leaks(text, secrets), ", "); got != want {
			t.Errorf("in %s: %q, want %q", text, got, want)
		}
	}
	if got := leaks("hunter2hunter2", secrets, clientSecret); got != nil {
		t.Errorf("what may be there: %v", got)
	}
}
