package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// Rule R4: the metadata of a resource names its issuers, at the URLs where clients look.
func TestMetadataIsServed(t *testing.T) {
	p := resourceOf(t, nil)
	p.URI, p.Issuers = "https://mcp.example.com/public/mcp", []string{"https://as.example.com", "https://as2.example.com/t"}
	p.Scopes, p.AdvertisedScopes = []string{"mcp"}, []string{"mcp", "files:read"}
	p.Name, p.Documentation = "Files", "https://example.com/docs"
	p.DPoP, p.RequireDPoP = &proofs{}, true
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
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
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{
			"resource":              "https://mcp.example.com/public/mcp",
			"authorization_servers": []any{"https://as.example.com", "https://as2.example.com/t"},
			"scopes_supported":      []any{"mcp", "files:read"}, "bearer_methods_supported": []any{"header"},
			"resource_name": "Files", "resource_documentation": "https://example.com/docs",
			"dpop_signing_alg_values_supported": []any{"ES256", "EdDSA"}, "dpop_bound_access_tokens_required": true,
		}, got); diff != "" || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v (-want +got)\n%s", path, w.Header(), diff)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "https://mcp.example.com/.well-known/oauth-protected-resource", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// Without URI, the requested URL is the resource on the loopback interface only. The Host
// header cannot choose another resource.
func TestHostHeaderDoesNotChooseTheResource(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	ada, _ := principal.New(issuers[0], "ada", "")
	p := &auth.ProtectedResource{Issuers: issuers, Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
		audience, err := base64.RawURLEncoding.DecodeString(token)
		return &auth.Info{Principal: ada, Audience: []string{"x", string(audience)}}, err
	})}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, auth.MetadataPath) {
			p.ServeMetadata(w, r)
			return
		}
		if _, rejection := p.Authenticate(w.Header(), r); rejection != nil {
			w.WriteHeader(rejection.Status)
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
			req.Header.Set("Authorization", "Bearer "+encode([]byte(audience)))
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
		{"127.0.0.1:1", "/mcp", "http://127.0.0.1:1/mcp", 401}, // the port of the connection counts
		{"127.0.0.1:" + port, "/mcp", endpoint.URL + "/other", 401},
		{"127.0.0.1:" + port, "/mcp", endpoint.URL, 401},
		{"evil.example", "/mcp", "http://evil.example/mcp", 500},
		{"evil.example:" + port, "/mcp", "", 500},
	} {
		if res := send(tc.host, tc.path, tc.audience); res.StatusCode != tc.status {
			t.Errorf("%s%s with a token for %s: %s", tc.host, tc.path, tc.audience, res.Status)
		}
	}
	metadata := challengeOf(t, send("127.0.0.1:"+port, "/mcp", "").Header).Params["resource_metadata"]
	if metadata != endpoint.URL+"/.well-known/oauth-protected-resource/mcp" {
		t.Fatalf("resource_metadata is %s", metadata)
	}
	res := send("127.0.0.1:"+port, "/.well-known/oauth-protected-resource/mcp", "")
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"resource":"`+endpoint.URL+`/mcp"`) {
		t.Errorf("%s %s", res.Status, body)
	}
	r := httptest.NewRequest(http.MethodGet, "https://mcp.example.com/mcp", nil) // without a local address
	if _, rejection := p.Authenticate(http.Header{}, r); rejection == nil || rejection.Status != http.StatusInternalServerError || rejection.Err == nil {
		t.Errorf("without a local address: %+v", rejection)
	}
}
