package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// R4: the metadata of a resource says who issues tokens for it, where clients look.
func TestR4MetadataIsServedWhereClientsLook(t *testing.T) {
	a := &auth.ProtectedResource{
		URI: "https://mcp.example.com/public/mcp", Issuers: []string{"https://as.example.com", "https://as2.example.com/t"},
		Scopes: []string{"mcp"}, AdvertisedScopes: []string{"mcp", "files:read"}, Name: "Files", Documentation: "https://example.com/docs",
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	handler := a.MetadataHandler()
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource":                  http.StatusOK,
		"/.well-known/oauth-protected-resource/":                 http.StatusOK,
		"/.well-known/oauth-protected-resource/public/mcp":       http.StatusOK,
		"/.well-known/oauth-protected-resource/public/mcp?x=y":   http.StatusOK,
		"/.well-known/oauth-protected-resource/public":           http.StatusNotFound,
		"/.well-known/oauth-protected-resource/public/mcp/other": http.StatusNotFound,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://evil.example"+path, nil) // the Host is not asked
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want || !auth.IsMetadata(r) {
			t.Errorf("%s: %d", path, w.Code)
			continue
		}
		if want != http.StatusOK {
			continue
		}
		var got object
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "dpop_signing_alg_values_supported")
		if diff := cmp.Diff(object{
			"resource":              "https://mcp.example.com/public/mcp",
			"authorization_servers": []any{"https://as.example.com", "https://as2.example.com/t"},
			"scopes_supported":      []any{"mcp", "files:read"}, "bearer_methods_supported": []any{"header"},
			"resource_name": "Files", "resource_documentation": "https://example.com/docs",
		}, got); diff != "" || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v (-want +got)\n%s", path, w.Header(), diff)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "https://mcp.example.com/.well-known/oauth-protected-resource", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resources", "/mcp", "/mcp/.well-known/oauth-protected-resource"} {
		if auth.IsMetadata(httptest.NewRequest(http.MethodGet, path, nil)) {
			t.Errorf("%s is taken for metadata", path)
		}
	}
}

// A resource that nobody has named is what was asked for, on the loopback interface
// only; the Host header names nothing else.
func TestTheHostHeaderDoesNotNameTheResource(t *testing.T) {
	i := newIssuer(t)
	a := &auth.ProtectedResource{Issuers: []string{i.URL}}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth.IsMetadata(r) {
			a.ServeMetadata(w, r)
			return
		}
		if _, no := a.Authenticate(w.Header(), r); no != nil {
			w.WriteHeader(no.Status)
		}
	}))
	defer endpoint.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(endpoint.URL, "http://"), ":")
	send := func(host, path, audience string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if audience != "" {
			req.Header.Set("Authorization", "Bearer "+i.token(with(i.claims(), object{"aud": []string{"x", audience}})))
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for _, tc := range []struct {
		host, path, audience string
		status               int
	}{
		{"127.0.0.1:" + port, "/mcp", endpoint.URL + "/mcp", 200},
		{"127.0.0.1:" + port, "/", endpoint.URL, 200},
		{"localhost:" + port, "/mcp", "http://localhost:" + port + "/mcp", 200},
		{"127.0.0.1:1", "/mcp", "http://127.0.0.1:1/mcp", 401}, // the port is the one that it came in on
		{"127.0.0.1:" + port, "/mcp", endpoint.URL + "/other", 401},
		{"127.0.0.1:" + port, "/mcp", endpoint.URL, 401},
		{"evil.example", "/mcp", "http://evil.example/mcp", 500},
		{"evil.example:" + port, "/mcp", "", 500},
	} {
		if res := send(tc.host, tc.path, tc.audience); res.StatusCode != tc.status {
			t.Errorf("%s%s with a token for %s: %s", tc.host, tc.path, tc.audience, res.Status)
		}
	}
	where := challengeOf(t, send("127.0.0.1:"+port, "/mcp", "").Header).Params["resource_metadata"]
	if where != endpoint.URL+"/.well-known/oauth-protected-resource/mcp" {
		t.Fatalf("metadata at %s", where)
	}
	res := send("127.0.0.1:"+port, "/.well-known/oauth-protected-resource/mcp", "")
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"resource":"`+endpoint.URL+`/mcp"`) {
		t.Errorf("%s %s", res.Status, body)
	}
	elsewhere := httptest.NewRequest(http.MethodGet, "https://mcp.example.com/mcp", nil) // no connection of ours
	if _, no := a.Authenticate(http.Header{}, elsewhere); no == nil || no.Status != http.StatusInternalServerError || no.Err == nil {
		t.Errorf("without a local address: %+v", no)
	}
}

func TestTheAudienceIsComparedAsTheURIItIs(t *testing.T) {
	for _, tc := range []struct {
		uri, audience string
		ok            bool
	}{
		{self, self, true}, {self, "HTTPS://MCP.Example.com/mcp", true}, {self, "https://mcp.example.com:443/mcp", true},
		{"https://mcp.example.com", "https://mcp.example.com/", true}, {"https://mcp.example.com/", "https://mcp.example.com", true},
		{self, "https://mcp.example.com/MCP", false}, {self, self + "/", false}, {self, self + "?x", false}, {self, "https://mcp.example.com", false},
		{self, "http://mcp.example.com/mcp", false}, {self, "https://mcp.example.com.evil.example/mcp", false}, {self, "mcp.example.com/mcp", false},
		{self, "https://u@mcp.example.com/mcp", false}, {self, self + "#x", false}, {self, "*", false}, {self, "", false},
	} {
		who, _ := principal.New("https://as.example.com", "ada", "")
		a := &auth.ProtectedResource{URI: tc.uri, Issuers: []string{"https://as.example.com"}, Verifier: auth.VerifierFunc(func(context.Context, string) (*auth.Info, error) {
			return &auth.Info{Principal: who, Audience: []string{"other", tc.audience}}, nil
		})}
		if _, no, _ := present(a, "Bearer", "token"); (no == nil) != tc.ok {
			t.Errorf("a token for %q at %s: %+v", tc.audience, tc.uri, no)
		}
	}
}

// R5: what is asked for is what is needed, a broader scope will do, and refresh tokens
// are none of the resource's business.
func TestR5ScopesAreAskedForAsNeeded(t *testing.T) {
	a := resourceOf(t, map[string]*auth.Info{"admin": {Scopes: []string{"admin"}}, "reader": {Scopes: []string{"files:read"}}, "all": {Scopes: []string{"files:read", "files:write"}}})
	a.Scopes = []string{"files:read"}
	a.Implies = func(granted, needed string) bool { return granted == "admin" && strings.HasPrefix(needed, "files:") }
	for token, want := range map[string]string{"admin": "", "all": "", "reader": "files:read files:write"} {
		info, no, _ := present(a, "Bearer", token)
		if no != nil {
			t.Fatalf("%s: %+v", token, no)
		}
		response := http.Header{}
		no = a.Permit(response, httptest.NewRequest(http.MethodPost, "/", nil), info, []string{"files:write", "files:read"})
		if (no == nil) != (want == "") || no != nil && (no.Status != http.StatusForbidden || challengeOf(t, response).Params["scope"] != want) {
			t.Errorf("%s: %+v %v", token, no, response)
		}
		if err := auth.Require(auth.NewContext(t.Context(), info), "files:write"); (err == nil) != (want == "") {
			t.Errorf("%s in a handler: %v", token, err)
		}
	}
	for _, scopes := range [][]string{{"offline_access"}, {""}, {"a b"}, {`a"b`}, {"ü"}} {
		for name, bad := range map[string]*auth.ProtectedResource{
			"needed": {Scopes: scopes}, "advertised": {AdvertisedScopes: scopes}, "of a method": {MethodScopes: map[string][]string{"tools/call": scopes}},
		} {
			bad.URI, bad.Issuers = self, []string{"https://as.example.com"}
			if bad.Check() == nil {
				t.Errorf("%s: %q is accepted", name, scopes)
			}
		}
	}
}

func TestAResourceThatCannotBeIsRefusedAtOnce(t *testing.T) {
	as := []string{"https://as.example.com"}
	for name, a := range map[string]*auth.ProtectedResource{
		"no issuer": {URI: self}, "http": {URI: "http://mcp.example.com", Issuers: as}, "a fragment": {URI: self + "#x", Issuers: as},
		"no host": {URI: "/mcp", Issuers: as}, "an issuer over http": {URI: self, Issuers: []string{"http://as.example.com"}},
		"a short key":         {URI: self, Issuers: as, DPoP: auth.DPoP{Nonces: true, NonceKeys: [][]byte{[]byte("short")}}},
		"a verifier's issuer": {URI: self, Issuers: as, Verifier: &auth.JWT{}},
	} {
		if a.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
		if _, no := a.Authenticate(http.Header{}, httptest.NewRequest(http.MethodGet, "/", nil)); no == nil || no.Status != http.StatusInternalServerError {
			t.Errorf("%s lets somebody in: %+v", name, no)
		}
	}
}

// R3, R6: a token, a proof or a claim is in nothing that is shown, logged or reported.
func TestR3R6NothingOfATokenIsToBeSeen(t *testing.T) {
	const canary = "planted-canary-token"
	var seen bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&seen, &slog.HandlerOptions{Level: slog.LevelDebug}))
	who, _ := principal.New("https://as.example.com", "ada", "")
	for name, verify := range map[string]auth.VerifierFunc{
		"no": func(_ context.Context, token string) (*auth.Info, error) { return nil, errors.New("what is " + token) },
		"down": func(_ context.Context, token string) (*auth.Info, error) {
			return nil, fmt.Errorf("%w: GET /?token=%s", auth.ErrUnavailable, token)
		},
		"yes": func(_ context.Context, token string) (*auth.Info, error) {
			return &auth.Info{Principal: who, Audience: []string{self}, Claims: json.RawMessage(`{"email":"planted-canary-mail"}`)}, nil
		},
	} {
		a := &auth.ProtectedResource{URI: self, Issuers: []string{"https://as.example.com"}, Verifier: verify}
		info, no, response := present(a, "Bearer", canary)
		fmt.Fprintf(&seen, "%s: %v %+v %#v %s", name, info, info, info, response)
		logger.Info("who", "info", info)
		if info != nil {
			ctx := auth.NewContext(t.Context(), info)
			fmt.Fprintf(&seen, "%v %+v", ctx, auth.FromContext(ctx))
		}
		if no != nil {
			fmt.Fprintf(&seen, "%+v %v", *no, no.Err)
			logger.Info("refused", "refusal", no)
		}
	}
	p := newProver(t)
	a := resourceOf(t, map[string]*auth.Info{canary: {KeyThumbprint: p.thumbprint}})
	proof := p.proof(canary, object{"htu": "https://planted-canary-url.example"})
	_, no, response := present(a, "DPoP", canary, proof)
	fmt.Fprintf(&seen, "%+v %s", no, response)
	if text := seen.String(); strings.Contains(text, "planted-canary") || strings.Contains(text, proof) {
		t.Errorf("%s", text)
	}
}

func TestWithoutATokenNobodyHasScopes(t *testing.T) {
	var lacking *auth.ScopeError
	if err := auth.Require(t.Context(), "a", "b"); !errors.As(err, &lacking) || strings.Join(lacking.Needed, " ") != "a b" {
		t.Errorf("%v", err)
	}
	if err := auth.Require(t.Context()); err != nil {
		t.Errorf("nothing was required: %v", err)
	}
	if info := auth.FromContext(t.Context()); info != nil {
		t.Errorf("%v", info)
	}
}
