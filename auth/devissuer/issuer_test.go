package devissuer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}),
		// After a request body that is too long, net/http keeps a goroutine for half a second,
		// even after Close.
		goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func start(t *testing.T, config Config) *Issuer {
	t.Helper()
	i := must.Get(Start(config))(t)
	t.Cleanup(func() {
		must.Check(t, i.Close())
		http.DefaultClient.CloseIdleConnections()
	})
	return i
}

const (
	resource    = "http://127.0.0.1:8080/mcp"
	redirectURI = "http://127.0.0.1:3000/redirectURI"
	verifier    = "a-verifier-of-at-least-forty-three-characters-in-length"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var public = Client{ID: "editor", Name: "An editor", RedirectURIs: []string{redirectURI}}

// page returns the URL of a valid authorization request with changes, pairs of parameters and
// values. An empty value removes the parameter.
func page(i *Issuer, changes ...string) string {
	query := url.Values{
		"response_type": {"code"}, "client_id": {"editor"}, "redirect_uri": {redirectURI}, "state": {"s1"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"}, "resource": {resource},
		"scope": {"read write"},
	}
	for n := 0; n < len(changes); n += 2 {
		query.Set(changes[n], changes[n+1])
		if changes[n+1] == "" {
			query.Del(changes[n])
		}
	}
	return i.URL() + "/authorize?" + query.Encode()
}

// authorize returns the parameters of the redirect to the client.
func authorize(t *testing.T, b *Browser, page string) url.Values {
	t.Helper()
	location := must.Get(b.Authorize(t.Context(), page))(t)
	u, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, redirectURI+"?") {
		t.Fatalf("redirect to %q, %v", location, err)
	}
	return u.Query()
}

// response is a response of the token endpoint or the registration endpoint.
type response struct {
	Status  int    `json:"-"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Error   string `json:"error"`
	Reason  string `json:"error_description"`

	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

func post(t *testing.T, address, contentType, body string, headers ...string) response {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", contentType)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	got := must.Get(http.DefaultClient.Do(r))(t)
	defer got.Body.Close()
	raw := must.Get(io.ReadAll(got.Body))(t)
	a := response{Status: got.StatusCode}
	if len(raw) > 0 && json.Unmarshal(raw, &a) != nil {
		t.Fatalf("%s: %d %s", address, got.StatusCode, raw)
	}
	return a
}

// token sends a form to the token endpoint: pairs of names and values, without empty values.
func token(t *testing.T, i *Issuer, pairs ...string) response {
	t.Helper()
	form := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		if pairs[n+1] != "" {
			form.Set(pairs[n], pairs[n+1])
		}
	}
	return post(t, i.URL()+"/token", "application/x-www-form-urlencoded", form.Encode())
}

func redeem(t *testing.T, i *Issuer, code string) response {
	t.Helper()
	return token(t, i, "grant_type", "authorization_code", "client_id", "editor", "code", code,
		"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource)
}

func refreshWith(t *testing.T, i *Issuer, refresh string) response {
	t.Helper()
	return token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh, "resource",
		resource)
}

// verify verifies a token with the published keys and returns its claims.
func verify(t *testing.T, i *Issuer, token string) (claims, error) {
	t.Helper()
	got := must.Get(http.Get(i.URL() + "/jwks"))(t)
	defer got.Body.Close()
	var set jose.JSONWebKeySet
	must.Do(t, json.NewDecoder(got.Body).Decode(&set))
	for _, key := range set.Keys {
		if !key.IsPublic() {
			t.Fatal("a private key is published")
		}
	}
	signed := must.Get(jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256}))(t)
	if typ := signed.Signatures[0].Protected.ExtraHeaders["typ"]; typ != "at+jwt" {
		t.Errorf("typ is %v", typ)
	}
	payload, err := signed.Verify(&set)
	if err != nil {
		return claims{}, err
	}
	var c claims
	return c, json.Unmarshal(payload, &c)
}

func TestAuthorizationCodeFlow(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Users: []string{"ada", "grace"}})
	params := authorize(t, &Browser{User: "grace"}, page(i))
	if params.Get("state") != "s1" || params.Get("iss") != i.URL() || params.Has("error") {
		t.Fatalf("redirect with %v", params)
	}
	issued := redeem(t, i, params.Get("code"))
	if issued.Status != 200 || issued.Type != "Bearer" || issued.Scope != "read write" || issued.Expires != 300 {
		t.Fatalf("issued %+v", issued)
	}
	claims := must.Get(verify(t, i, issued.Access))(t)
	if claims.Issuer != i.URL() || claims.Subject != "grace" || claims.Audience != resource ||
		claims.Client != "editor" ||
		claims.Scope != "read write" || claims.ID == "" || claims.Expires-claims.IssuedAt != 300 {
		t.Errorf("claims %+v", claims)
	}
}

func TestStartRejectsInvalidConfigurations(t *testing.T) {
	for name, config := range map[string]Config{
		"scope with a space":      {Scopes: []string{"a b"}},
		"client without an ID":    {Clients: []Client{{Name: "x"}}},
		"javascript redirect URI": {Clients: []Client{{ID: "x", RedirectURIs: []string{"javascript:alert(1)"}}}},
	} {
		if i, err := Start(config); err == nil {
			t.Errorf("%s is accepted", name)
			_ = i.Close()
		}
	}
}

func TestMetadataNamesTheEndpoints(t *testing.T) {
	i := start(t, Config{Scopes: []string{"read"}})
	got := must.Get(http.Get(i.URL() + "/.well-known/oauth-authorization-server"))(t)
	defer got.Body.Close()
	var document map[string]any
	must.Do(t, json.NewDecoder(got.Body).Decode(&document))
	if document["issuer"] != i.URL() || document["authorization_response_iss_parameter_supported"] != true {
		t.Errorf("metadata: %v", document)
	}
	for _, name := range []string{"jwks_uri", "token_endpoint", "registration_endpoint", "revocation_endpoint",
		"authorization_endpoint"} {
		address, _ := document[name].(string)
		r := must.Get(http.Get(address))(t)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusNotFound {
			t.Errorf("%s is %s, which is not found", name, address)
		}
	}
}

func TestPagesSayThatTheyAreForDevelopment(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	for _, address := range []string{i.URL(), page(i), page(i, "client_id", "unknown"),
		page(i, "redirect_uri", "https://elsewhere.example/")} {
		got := must.Get(http.Get(address))(t)
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || !strings.Contains(string(body), "is for development") {
			t.Errorf("%s: %d %s, %v", address, got.StatusCode, body, err)
		}
		if got.Header.Get("X-Frame-Options") != "DENY" ||
			!strings.Contains(got.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s allows frames: %v", address, got.Header)
		}
	}
}

func TestOtherHostsAreRejected(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, page(i), nil))(t)
	r.Host = "rebound.example"
	got := must.Get(http.DefaultClient.Do(r))(t)
	defer got.Body.Close()
	if got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
		t.Errorf("status %d, cookies %v", got.StatusCode, got.Cookies())
	}
}

func TestEndpointsWithoutCookiesAllowAllOrigins(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	for path, open := range map[string]bool{"/token": true, "/jwks": true, "/register": true, "/authorize": false} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodOptions, i.URL()+path, nil))(t)
		got := must.Get(http.DefaultClient.Do(r))(t)
		_ = got.Body.Close()
		if (got.Header.Get("Access-Control-Allow-Origin") == "*") != open ||
			got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
}
