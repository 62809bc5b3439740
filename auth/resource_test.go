package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

const self = "https://mcp.example.com/mcp"

var issuers = []string{"https://as.example.com"}

// resourceOf returns a resource that accepts the given tokens.
func resourceOf(t testing.TB, tokens map[string]*auth.Info) *auth.ProtectedResource {
	ada := must.Get(principal.New(issuers[0], "ada", "editor"))(t)
	return &auth.ProtectedResource{
		URI: self, Issuers: issuers,
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			info := tokens[token]
			if info == nil {
				return nil, &auth.InvalidTokenError{Reason: "unknown token"}
			}
			known := *info
			known.Principal = ada
			if known.Audience == nil {
				known.Audience = []string{self}
			}
			return &known, nil
		}),
	}
}

// present sends a request with a token to a resource.
func present(p *auth.ProtectedResource, scheme, token string) (*auth.Info, *auth.Rejection, http.Header) {
	r := httptest.NewRequest(http.MethodPost, "https://backend.internal/mcp?sessionId=1", nil)
	r.Header.Set("Authorization", scheme+" "+token)
	response := http.Header{}
	info, err := p.Authenticate(response, r)
	rejection, _ := errors.AsType[*auth.Rejection](err)
	return info, rejection, response
}

func rejectionOf(_ *auth.Info, err error) *auth.Rejection {
	rejection, _ := errors.AsType[*auth.Rejection](err)
	return rejection
}

func challengeOf(t *testing.T, response http.Header) challenge.Challenge {
	t.Helper()
	all := challenge.Parse(response["Www-Authenticate"])
	must.Equal(t, len(all), 1, all)
	return all[0]
}

func TestRequestsNeedCredentials(t *testing.T) {
	p := resourceOf(t, map[string]*auth.Info{"token": {}})
	p.Scopes = []string{"mcp"}
	for name, tc := range map[string]struct {
		headers []string
		status  int // 0: accepted
		code    string
	}{
		"none":             {nil, 401, ""},
		"another scheme":   {[]string{"Basic YTpi"}, 401, ""},
		"bearer":           {[]string{"Bearer token"}, 0, ""},
		"lower case":       {[]string{"bearer  token "}, 0, ""},
		"unknown token":    {[]string{"Bearer other"}, 401, "invalid_token"},
		"no token":         {[]string{"Bearer"}, 400, "invalid_request"},
		"invalid syntax":   {[]string{"Bearer a b"}, 400, "invalid_request"},
		"two headers":      {[]string{"Bearer token", "Bearer token"}, 400, "invalid_request"},
		"too long":         {[]string{"Bearer " + strings.Repeat("x", 17<<10)}, 400, "invalid_request"},
		"DPoP, no binding": {[]string{"DPoP token"}, 401, "invalid_token"},
	} {
		r := httptest.NewRequest(http.MethodPost, self, nil)
		r.Header["Authorization"] = tc.headers
		response := http.Header{}
		info, err := p.Authenticate(response, r)
		rejection, _ := errors.AsType[*auth.Rejection](err)
		if tc.status == 0 {
			must.CheckThat(t, rejection == nil && info.Principal.Subject() == "ada",
				"%s: %v, %+v", name, info, rejection)
			continue
		}
		if rejection == nil || rejection.Status != tc.status {
			t.Errorf("%s: %+v", name, rejection)
			continue
		}
		c := challengeOf(t, response)
		must.CheckThat(t, c.Is("Bearer") && c.Params["error"] == tc.code && c.Params["scope"] == "mcp" &&
			c.Params["resource_metadata"] == "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
			"%s: %v", name, c)
	}
}

// A resource without a ProofVerifier rejects tokens that are bound to a key.
func TestBoundTokensNeedAProofVerifier(t *testing.T) {
	p := resourceOf(t, map[string]*auth.Info{"bound": {KeyThumbprint: "abc"}})
	for _, scheme := range []string{"Bearer", "DPoP"} {
		_, rejection, response := present(p, scheme, "bound")
		must.CheckThat(t, rejection != nil && rejection.Status == http.StatusUnauthorized &&
			challengeOf(t, response).Is("Bearer"), "%s: %+v %v", scheme, rejection, response)
	}
}

// proofs is a ProofVerifier with a fixed result.
type proofs struct {
	err  error
	urls []string
}

func (p *proofs) Algorithms() []string { return []string{"ES256", "EdDSA"} }

func (p *proofs) VerifyProof(of auth.Proof) (string, error) {
	p.urls = of.URLs
	if of.Token != "bound" || of.Thumbprint != "abc" {
		return "", errors.New("unexpected token")
	}
	return "next", p.err
}

func TestProofVerifierDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"valid":       {nil, 0, ""},
		"invalid":     {&auth.InvalidTokenError{Reason: "bad", Code: "invalid_dpop_proof"}, 401, "invalid_dpop_proof"},
		"unavailable": {errors.New("too many"), 503, ""},
	} {
		p := resourceOf(t, map[string]*auth.Info{"bound": {KeyThumbprint: "abc"}})
		v := &proofs{err: tc.err}
		p.DPoP = v
		_, rejection, response := present(p, "DPoP", "bound")
		status := 0
		if rejection != nil {
			status = rejection.Status
		}
		must.CheckThat(t, status == tc.status && response.Get("DPoP-Nonce") == "next",
			"%s: %+v %v", name, rejection, response)
		must.CheckThat(t, slices.Equal(v.urls, []string{self}), "%s: URLs %q", name, v.urls)
		if tc.status != 401 {
			continue
		}
		c := challengeOf(t, response)
		must.CheckThat(t, c.Is("DPoP") && c.Params["error"] == tc.code && c.Params["algs"] == "ES256 EdDSA",
			"%s: %v", name, c)
	}
}

// The tokens of a resource without an authorization server, such as API keys, need no audience. If they have one, it
// is still compared, and so are all other properties.
func TestResourceWithoutIssuersHasNoMetadata(t *testing.T) {
	tokens := map[string]*auth.Info{
		"key": {}, "for-others": {Audience: []string{"https://other.example"}}, "for-none": {Audience: []string{}},
		"expired": {Expiry: time.Now().Add(-time.Hour)}, "bound": {KeyThumbprint: "abc"},
	}
	verify := auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
		info := tokens[token]
		if info == nil {
			return nil, &auth.InvalidTokenError{Reason: "unknown key"}
		}
		known := *info
		known.Principal, _ = principal.New("keys", "ada", "")
		return &known, nil
	})
	for _, tc := range []struct {
		uri     string
		issuers []string
		dpop    auth.ProofVerifier
		status  map[string]int
	}{
		{self, nil, nil, map[string]int{"key": 0, "for-others": 401, "for-none": 401, "expired": 401, "bound": 401,
			"other": 401}},
		{"", nil, nil, map[string]int{"key": 0, "for-others": 500, "for-none": 500, "expired": 401, "bound": 401,
			"other": 401}},
		{"", nil, &proofs{}, map[string]int{"key": 500}}, // proofs name the URL
		{self, issuers, nil, map[string]int{"key": 401}},
		{"", issuers, nil, map[string]int{"key": 500}},
	} {
		p := &auth.ProtectedResource{URI: tc.uri, Issuers: tc.issuers, Verifier: verify, DPoP: tc.dpop}
		must.Do(t, p.Check())
		for token, want := range tc.status {
			_, rejection, response := present(p, "Bearer", token)
			status := 0
			if rejection != nil {
				status = rejection.Status
			}
			must.CheckEqual(t, status, want, tc.uri, tc.issuers, token, rejection)
			if status != 401 || tc.issuers != nil {
				continue
			}
			c := challengeOf(t, response)
			must.CheckThat(t, c.Is("Bearer") && c.Params["realm"] != "" && c.Params["resource_metadata"] == "",
				"%s: %v", token, c)
		}
		w := httptest.NewRecorder()
		p.MetadataHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet,
			self[:len(self)-len("/mcp")]+auth.MetadataPath, nil))
		must.CheckEqual(t, w.Code == http.StatusNotFound, tc.issuers == nil, tc.issuers, w.Code)
	}
}

func TestAudienceIsComparedAsURI(t *testing.T) {
	for _, tc := range []struct {
		uri, audience string
		ok            bool
	}{
		{self, self, true}, {self, "HTTPS://MCP.Example.com/mcp", true},
		{self, "https://mcp.example.com:443/mcp", true},
		{"https://mcp.example.com", "https://mcp.example.com/", true},
		{"https://mcp.example.com/", "https://mcp.example.com", true},
		{self, "https://mcp.example.com/MCP", false}, {self, self + "/", false}, {self, self + "?x", false},
		{self, "https://mcp.example.com", false},
		{self, "http://mcp.example.com/mcp", false}, {self, "https://mcp.example.com.evil.example/mcp", false},
		{self, "mcp.example.com/mcp", false},
		{self, "https://u@mcp.example.com/mcp", false}, {self, self + "#x", false}, {self, "*", false},
		{self, "", false},
	} {
		p := resourceOf(t, map[string]*auth.Info{"token": {Audience: []string{"other", tc.audience}}})
		p.URI = tc.uri
		_, rejection, _ := present(p, "Bearer", "token")
		must.CheckThat(t, (rejection == nil) == tc.ok, "a token for %q at %s: %+v", tc.audience, tc.uri, rejection)
	}
}

// Rule R5: the challenge names the scopes that the request needs, and a broader scope
// suffices. No server asks for refresh tokens.
func TestChallengesNameTheNeededScopes(t *testing.T) {
	p := resourceOf(t, map[string]*auth.Info{"admin": {Scopes: []string{"admin"}},
		"reader": {Scopes: []string{"files:read"}}, "all": {Scopes: []string{"files:read", "files:write"}}})
	p.Scopes = []string{"files:read"}
	p.Implies = func(granted, needed string) bool { return granted == "admin" && strings.HasPrefix(needed, "files:") }
	for token, granted := range map[string]bool{"admin": true, "all": true, "reader": false} {
		info, rejection, _ := present(p, "Bearer", token)
		must.That(t, rejection == nil, "%s: %+v", token, rejection)
		must.CheckThat(t, info.Grants("files:write") == granted && info.Grants("files:read"), "%s: %v", token, info)
		err := auth.Require(auth.NewContext(t.Context(), info), "files:write", "files:read")
		must.CheckThat(t, (err == nil) == granted, "%s in a handler: %v", token, err)
		response := http.Header{}
		rejection = p.Challenge(response, httptest.NewRequest(http.MethodPost, "/", nil), info,
			[]string{"files:write", "files:read"})
		c := challengeOf(t, response)
		must.CheckThat(t, rejection.Status == http.StatusForbidden && c.Params["scope"] == "files:read files:write" &&
			c.Params["error"] == "insufficient_scope", "%s: %+v %v", token, rejection, response)
	}
	for _, scopes := range [][]string{{"offline_access"}, {""}, {"a b"}, {`a"b`}, {"ü"}} {
		for name, bad := range map[string]*auth.ProtectedResource{
			"Scopes": {Scopes: scopes}, "AdvertisedScopes": {AdvertisedScopes: scopes},
			"MethodScopes": {MethodScopes: map[string][]string{"tools/call": scopes}},
		} {
			bad.URI, bad.Issuers = self, issuers
			must.CheckFails(t, jwt.Protect(bad).Check(), "invalid scope", name, scopes)
		}
	}
}

func TestCheckRejectsInvalidFields(t *testing.T) {
	for name, p := range map[string]*auth.ProtectedResource{
		"no issuer":        {URI: self},
		"http":             {URI: "http://mcp.example.com", Issuers: issuers},
		"fragment":         {URI: self + "#x", Issuers: issuers},
		"no host":          {URI: "/mcp", Issuers: issuers},
		"issuer over http": {URI: self, Issuers: []string{"http://as.example.com"}},
		"short nonce key": {URI: self, Issuers: issuers,
			DPoP: &jwt.ProofVerifier{Nonces: true, NonceKeys: [][]byte{[]byte("short")}}},
		"Verifier's Check": {URI: self, Issuers: issuers, Verifier: &jwt.Verifier{}},
		"DPoP required, unset": {URI: self, Issuers: issuers, Verifier: &jwt.Verifier{Issuers: issuers},
			RequireDPoP: true},
		"no Verifier": {URI: self, Issuers: issuers},
	} {
		if name != "DPoP required, unset" && name != "no Verifier" {
			jwt.Protect(p)
		}
		must.CheckThat(t, p.Check() != nil, "%s: Check returned nil", name)
		rejection := rejectionOf(p.Authenticate(http.Header{},
			httptest.NewRequest(http.MethodGet, "/", nil)))
		must.CheckThat(t, rejection != nil && rejection.Status == http.StatusInternalServerError,
			"%s: %+v", name, rejection)
	}
	must.Check(t, jwt.Protect(&auth.ProtectedResource{URI: self, Issuers: issuers, RequireDPoP: true}).Check())
}

func TestRequireWithoutToken(t *testing.T) {
	var missing *auth.ScopeError
	err := auth.Require(t.Context(), "a", "b")
	must.CheckThat(t, errors.As(err, &missing) && strings.Join(missing.Needed, " ") == "a b", "%v", err)
	must.Check(t, auth.Require(t.Context()))
	info := auth.FromContext(t.Context())
	must.CheckThat(t, info == nil, "%v", info)
}

func TestRejectedRequestsAreReported(t *testing.T) {
	p := resourceOf(t, map[string]*auth.Info{"reader": {Scopes: []string{"files:read"}}})
	var reasons []string
	p.OnReject = func(_ *http.Request, info *auth.Info, rejection *auth.Rejection) {
		reasons = append(reasons, fmt.Sprintf("%d %s %v", rejection.Status, rejection.Reason, info != nil))
	}
	info, _, _ := present(p, "Bearer", "reader")
	_, _, _ = present(p, "Bearer", "stolen")
	p.Challenge(http.Header{}, httptest.NewRequest(http.MethodPost, "/", nil), info, []string{"files:write"})
	want := []string{"401 unknown token false", "403 insufficient scope: the call needs files:write true"}
	must.CheckThat(t, slices.Equal(reasons, want), "reported %q, want %q", reasons, want)
}

// Rule R4: the metadata of a resource names its issuers, at the URLs where clients look.
func TestMetadataIsServed(t *testing.T) {
	p := resourceOf(t, nil)
	p.URI, p.Issuers = "https://mcp.example.com/public/mcp",
		[]string{"https://as.example.com", "https://as2.example.com/t"}
	p.Scopes, p.AdvertisedScopes = []string{"mcp"}, []string{"mcp", "files:read"}
	p.Name = "Files"
	p.DPoP, p.RequireDPoP = &proofs{}, true
	must.Do(t, p.Check())
	handler := p.MetadataHandler()
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource":                  http.StatusOK,
		"/.well-known/oauth-protected-resource/":                 http.StatusOK,
		"/.well-known/oauth-protected-resource/public/mcp":       http.StatusOK,
		"/.well-known/oauth-protected-resource/public/mcp?x=y":   http.StatusOK,
		"/.well-known/oauth-protected-resource/public":           http.StatusNotFound,
		"/.well-known/oauth-protected-resource/public/mcp/other": http.StatusNotFound,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://evil.example"+path, nil) // the Host has no influence
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
			continue
		}
		if want != http.StatusOK {
			continue
		}
		var got map[string]any
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &got))
		if diff := cmp.Diff(map[string]any{
			"resource":              "https://mcp.example.com/public/mcp",
			"authorization_servers": []any{"https://as.example.com", "https://as2.example.com/t"},
			"scopes_supported":      []any{"mcp", "files:read"}, "bearer_methods_supported": []any{"header"},
			"resource_name":                     "Files",
			"dpop_signing_alg_values_supported": []any{"ES256", "EdDSA"}, "dpop_bound_access_tokens_required": true,
		}, got); diff != "" || w.Header().Get("Content-Type") != "application/json" ||
			w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v (-want +got)\n%s", path, w.Header(), diff)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost,
		"https://mcp.example.com/.well-known/oauth-protected-resource", nil))
	must.CheckEqual(t, w.Code, http.StatusMethodNotAllowed)
}

// Without URI, the requested URL is the resource on the loopback interface only. The Host
// header cannot choose another resource.
func TestHostHeaderDoesNotChooseTheResource(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	ada, _ := principal.New(issuers[0], "ada", "")
	p := &auth.ProtectedResource{Issuers: issuers, Verifier: auth.VerifierFunc(func(_ context.Context,
		token string) (*auth.Info, error) {
		audience, err := base64.RawURLEncoding.DecodeString(token)
		return &auth.Info{Principal: ada, Audience: []string{"x", string(audience)}}, err
	})}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, auth.MetadataPath) {
			p.ServeMetadata(w, r)
			return
		}
		if rejection := rejectionOf(p.Authenticate(w.Header(), r)); rejection != nil {
			w.WriteHeader(rejection.Status)
		}
	}))
	defer endpoint.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(endpoint.URL, "http://"), ":")
	send := func(host, path, audience string) *http.Response {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint.URL+path, nil))(t)
		req.Host = host
		if audience != "" {
			req.Header.Set("Authorization", "Bearer "+encode([]byte(audience)))
		}
		res := must.Get(http.DefaultClient.Do(req))(t)
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
		{"127.0.0.1:1", "/mcp", "http://127.0.0.1:1/mcp", 401}, // the port of the connection counts
		{"127.0.0.1:" + port, "/mcp", endpoint.URL + "/other", 401},
		{"127.0.0.1:" + port, "/mcp", endpoint.URL, 401},
		{"evil.example", "/mcp", "http://evil.example/mcp", 500},
		{"evil.example:" + port, "/mcp", "", 500},
	} {
		res := send(tc.host, tc.path, tc.audience)
		must.CheckEqual(t, res.StatusCode, tc.status, tc.host, tc.path, tc.audience, res.Status)
	}
	metadata := challengeOf(t, send("127.0.0.1:"+port, "/mcp", "").Header).Params["resource_metadata"]
	must.Equal(t, metadata, endpoint.URL+"/.well-known/oauth-protected-resource/mcp")
	res := send("127.0.0.1:"+port, "/.well-known/oauth-protected-resource/mcp", "")
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"resource":"`+endpoint.URL+`/mcp"`) {
		t.Errorf("%s %s", res.Status, body)
	}
	r := httptest.NewRequest(http.MethodGet, "https://mcp.example.com/mcp", nil) // without a local address
	rejection := rejectionOf(p.Authenticate(http.Header{}, r))
	must.CheckThat(t, rejection != nil && rejection.Status == http.StatusInternalServerError && rejection.Err != nil,
		"without a local address: %+v", rejection)
}

// The log says that a Verifier of the program is wrong.
func TestVerifierMustReturnAPrincipal(t *testing.T) {
	p := &auth.ProtectedResource{Verifier: auth.VerifierFunc(func(context.Context, string) (*auth.Info, error) {
		return &auth.Info{}, nil
	})}
	_, rejection, _ := present(p, "Bearer", "token")
	must.CheckThat(t, rejection != nil && rejection.Status == http.StatusUnauthorized && rejection.Err != nil &&
		strings.Contains(rejection.Err.Error(), "returned no principal"), "%+v", rejection)
}

// Rules R3, R6: no output, log or error contains a token or a claim.
func TestTokensAndClaimsAreNotPrinted(t *testing.T) {
	const canary = "planted-canary-token"
	var output bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ada, _ := principal.New(issuers[0], "ada", "")
	for name, verify := range map[string]auth.VerifierFunc{
		"invalid": func(_ context.Context, token string) (*auth.Info, error) {
			return nil, errors.New("unknown: " + token)
		},
		"unavailable": func(_ context.Context, token string) (*auth.Info, error) {
			return nil, fmt.Errorf("%w: GET /?token=%s", auth.ErrUnavailable, token)
		},
		"valid": func(context.Context, string) (*auth.Info, error) {
			return &auth.Info{Principal: ada, Audience: []string{self},
				Claims: json.RawMessage(`{"email":"planted-canary-mail"}`)}, nil
		},
	} {
		p := &auth.ProtectedResource{URI: self, Issuers: issuers, Verifier: verify}
		info, rejection, response := present(p, "Bearer", canary)
		fmt.Fprintf(&output, "%s: %v %+v %#v %s", name, info, info, info, response)
		logger.Info("verified", "info", info)
		if info != nil {
			ctx := auth.NewContext(t.Context(), info)
			fmt.Fprintf(&output, "%v %+v %#v", ctx, auth.FromContext(ctx), struct{ ctx context.Context }{ctx})
			fmt.Fprintf(&output, "%+v %#v", struct{ info auth.Info }{*info}, []any{*info, info})
			must.CheckEqual(t, challenge.Token(ctx), canary)
		}
		if rejection != nil {
			fmt.Fprintf(&output, "%+v %v", *rejection, rejection.Err)
			logger.Info("rejected", "rejection", rejection)
		}
	}
	text := output.String()
	must.CheckThat(t, !strings.Contains(text, "planted-canary"), "%s", text)
}

// Issuers put roles and groups into objects, and into claims whose names are URLs or contain colons.
func TestClaimsAreFoundByTheirPath(t *testing.T) {
	info := &auth.Info{Claims: json.RawMessage(`{"groups":["finance","ops"],"realm_access":{"roles":["admin"]},` +
		`"https://example.com/roles":["editor"],"resource_access":{"mcp.example.com":{"roles":["reader"]}},` +
		`"a.b":{"c":1},"a":{"b":{"c":2,"d":3}},"text":"realm_access.roles"}`)}
	for name, want := range map[string]string{
		"groups": `["finance","ops"]`, "realm_access.roles": `["admin"]`, "https://example.com/roles": `["editor"]`,
		"resource_access.mcp.example.com.roles": `["reader"]`, "a.b.c": "1", "a.b.d": "", "a": `{"b":{"c":2,"d":3}}`,
		"groups.0": "", "text.realm_access": "", "nothing": "", "nothing.at.all": "", "": "", ".": "", "a.": "",
	} {
		value, ok := info.Claim(name)
		must.CheckEqual(t, string(value), want, name)
		must.CheckEqual(t, ok, want != "", name)
	}
	value, ok := new(auth.Info).Claim("a.b")
	must.CheckThat(t, !ok, "claims that are not set: %s", value)
}
