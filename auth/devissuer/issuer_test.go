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
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}),
		// Behind a body that is too long net/http stays for half a second, even after Close,
		// so that the client sees why before its connection is reset.
		goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func start(t *testing.T, config Config) *Issuer {
	t.Helper()
	i, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return i
}

const (
	resource = "http://127.0.0.1:8080/mcp"
	callback = "http://127.0.0.1:3000/callback"
	verifier = "a-verifier-of-at-least-forty-three-characters-in-length"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var public = Client{ID: "editor", Name: "An editor", RedirectURIs: []string{callback}}

// page returns the address of a good authorization request with some parameters changed; an empty one
// is left out.
func page(i *Issuer, changes ...string) string {
	query := url.Values{
		"response_type": {"code"}, "client_id": {"editor"}, "redirect_uri": {callback}, "state": {"s1"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"}, "resource": {resource}, "scope": {"read write"},
	}
	for n := 0; n < len(changes); n += 2 {
		query.Set(changes[n], changes[n+1])
		if changes[n+1] == "" {
			query.Del(changes[n])
		}
	}
	return i.URL() + "/authorize?" + query.Encode()
}

// authorize returns the parameters that the browser is sent back with.
func authorize(t *testing.T, b *Browser, page string) url.Values {
	t.Helper()
	location, err := b.Authorize(t.Context(), page)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, callback+"?") {
		t.Fatalf("sent to %q, %v", location, err)
	}
	return u.Query()
}

// answer is what the token endpoint and the registration say.
type answer struct {
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

func post(t *testing.T, address, kind, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	said, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{Status: got.StatusCode}
	if len(said) > 0 && json.Unmarshal(said, &a) != nil {
		t.Fatalf("%s answers %d %s", address, got.StatusCode, said)
	}
	return a
}

// token sends a form to the token endpoint: pairs of names and values, empty ones left out.
func token(t *testing.T, i *Issuer, pairs ...string) answer {
	t.Helper()
	form := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		if pairs[n+1] != "" {
			form.Set(pairs[n], pairs[n+1])
		}
	}
	return post(t, i.URL()+"/token", "application/x-www-form-urlencoded", form.Encode())
}

func redeem(t *testing.T, i *Issuer, code string) answer {
	t.Helper()
	return token(t, i, "grant_type", "authorization_code", "client_id", "editor", "code", code,
		"redirect_uri", callback, "code_verifier", verifier, "resource", resource)
}

func renew(t *testing.T, i *Issuer, refresh string) answer {
	t.Helper()
	return token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh, "resource", resource)
}

// verify returns the claims of a token that one of the published keys signed.
func verify(t *testing.T, i *Issuer, token string) (claims, error) {
	t.Helper()
	got, err := http.Get(i.URL() + "/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(got.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	for _, key := range set.Keys {
		if !key.IsPublic() {
			t.Fatal("a private key is published")
		}
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if kind := signed.Signatures[0].Protected.ExtraHeaders["typ"]; kind != "at+jwt" {
		t.Errorf("typ is %v", kind)
	}
	payload, err := signed.Verify(&set)
	if err != nil {
		return claims{}, err
	}
	var said claims
	return said, json.Unmarshal(payload, &said)
}

func TestAUserAllowsAClient(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Users: []string{"ada", "grace"}})
	back := authorize(t, &Browser{User: "grace"}, page(i))
	if back.Get("state") != "s1" || back.Get("iss") != i.URL() || back.Has("error") {
		t.Fatalf("sent back with %v", back)
	}
	given := redeem(t, i, back.Get("code"))
	if given.Status != 200 || given.Type != "Bearer" || given.Scope != "read write" || given.Expires != 300 {
		t.Fatalf("given %+v", given)
	}
	said, err := verify(t, i, given.Access)
	if err != nil {
		t.Fatal(err)
	}
	if said.Issuer != i.URL() || said.Subject != "grace" || said.Audience != resource || said.Client != "editor" ||
		said.Scope != "read write" || said.ID == "" || said.Expires-said.IssuedAt != 300 {
		t.Errorf("the token says %+v", said)
	}
}

func TestAnAddressBeyondLoopbackIsRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost:0", "example.com:80", "127.0.0.1"} {
		if i, err := Start(Config{Address: address}); err == nil {
			t.Errorf("%q: listens at %s", address, i.URL())
			_ = i.Close()
		}
	}
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, config := range map[string]Config{
		"a resource with a fragment": {Resources: []string{"https://a.example/#x"}},
		"a resource that is a path":  {Resources: []string{"/mcp"}},
		"a scope of two words":       {Scopes: []string{"a b"}},
		"a client without an id":     {Clients: []Client{{Name: "x"}}},
		"a javascript redirect":      {Clients: []Client{{ID: "x", RedirectURIs: []string{"javascript:alert(1)"}}}},
	} {
		if i, err := Start(config); err == nil {
			t.Errorf("%s is accepted", name)
			_ = i.Close()
		}
	}
}

func TestMetadataNamesWhatThereIs(t *testing.T) {
	i := start(t, Config{Scopes: []string{"read"}})
	got, err := http.Get(i.URL() + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var document map[string]any
	if err := json.NewDecoder(got.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	if document["issuer"] != i.URL() || document["authorization_response_iss_parameter_supported"] != true ||
		document["client_id_metadata_document_supported"] != false {
		t.Errorf("metadata: %v", document)
	}
	for _, name := range []string{"jwks_uri", "token_endpoint", "registration_endpoint", "revocation_endpoint", "authorization_endpoint"} {
		address, _ := document[name].(string)
		r, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusNotFound {
			t.Errorf("%s is %s, where nothing is", name, address)
		}
	}
}

func TestEveryPageSaysThatItIsForDevelopment(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	for _, address := range []string{i.URL(), page(i), page(i, "client_id", "nobody"), page(i, "redirect_uri", "https://elsewhere.example/")} {
		got, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || !strings.Contains(string(body), "is for development") {
			t.Errorf("%s shows %d %s, %v", address, got.StatusCode, body, err)
		}
		if got.Header.Get("X-Frame-Options") != "DENY" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s can be framed: %v", address, got.Header)
		}
	}
}

func TestANameThatResolvesToLoopbackIsNotServed(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page(i), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example"
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
		t.Errorf("status %d, cookies %v", got.StatusCode, got.Cookies())
	}
}

func TestScriptsOfAnyPageMayAskWhatClientsAsk(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	for path, open := range map[string]bool{"/token": true, "/jwks": true, "/register": true, "/authorize": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, i.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if (got.Header.Get("Access-Control-Allow-Origin") == "*") != open || got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
}

func TestKeysRotate(t *testing.T) {
	i := start(t, Config{})
	first, err := i.Token("ada", resource, "read")
	if err != nil {
		t.Fatal(err)
	}
	for n := range maxKeys {
		if _, err := verify(t, i, first); err != nil {
			t.Fatalf("after %d rotations: %v", n, err)
		}
		if err := i.RotateKey(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verify(t, i, first); err == nil {
		t.Error("a key is published for ever")
	}
	if second, err := i.Token("ada", resource); err != nil {
		t.Error(err)
	} else if _, err := verify(t, i, second); err != nil {
		t.Error(err)
	}
}
