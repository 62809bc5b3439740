package introspection_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/introspection"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = "https://mcp.example.com/mcp"

type object = map[string]any

// with returns a copy of claims with changes; the value nil removes a claim.
func with(claims, changes object) object {
	changed := maps.Clone(claims)
	for name, value := range changes {
		if value == nil {
			delete(changed, name)
		} else {
			changed[name] = value
		}
	}
	return changed
}

// endpoint is an introspection endpoint that responds with a document for each token.
type endpoint struct {
	*httptest.Server
	requests atomic.Int32
}

func newEndpoint(t *testing.T, documents map[string]object) *endpoint {
	i := &endpoint{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.requests.Add(1)
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || id != "mcp%3Aserver" || secret != "s%26cret" || r.URL.RawQuery != "" {
			http.Error(w, "unknown client", http.StatusUnauthorized)
			return
		}
		document := documents[r.PostFormValue("token")]
		if document == nil {
			document = object{"active": false}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *endpoint) verifier(now *time.Time) *introspection.Verifier {
	return &introspection.Verifier{
		Endpoint: i.URL, Issuer: "https://as.example.com", ClientID: "mcp:server", ClientSecret: "s&cret",
		Now: func() time.Time { return *now },
	}
}

// Rule R2: the introspection response decides whether a token is valid.
func TestVerifyReturnsTheResponse(t *testing.T) {
	now := time.Now()
	active := object{"active": true, "sub": "ada", "client_id": "editor", "aud": self, "scope": "a b",
		"exp": now.Add(time.Hour).Unix(), "extra": 1}
	i := newEndpoint(t, map[string]object{
		"good":         active,
		"machine":      with(active, object{"sub": nil}),
		"same issuer":  with(active, object{"iss": "https://as.example.com"}),
		"other issuer": with(active, object{"iss": "https://evil.example"}),
		"inactive":     with(active, object{"active": false}),
		"no active":    with(active, object{"active": nil}),
		"string":       with(active, object{"active": "true"}),
		"expired":      with(active, object{"exp": now.Add(-31 * time.Second).Unix()}),
		"no subject":   with(active, object{"sub": nil, "client_id": nil}),
		"number":       with(active, object{"sub": 1}),
		"certificate":  with(active, object{"cnf": object{"x5t#S256": "x"}}),
	})
	v := i.verifier(&now)
	info, err := v.Verify(t.Context(), "good")
	must.That(t, err == nil && info.Principal.Subject() == "ada" &&
		info.Principal.Issuer() == "https://as.example.com" && strings.Join(info.Scopes, " ") == "a b" &&
		info.Audience[0] == self, "%v, %v", info, err)
	extra, _ := info.Claim("extra")
	must.CheckEqual(t, string(extra), "1", "extra")
	if info, err := v.Verify(t.Context(), "machine"); err != nil || info.Principal.Subject() != "editor" {
		t.Errorf("token of a client: %v, %v", info, err)
	}
	must.Check(t, must.Err(v.Verify(t.Context(), "same issuer")))
	for _, token := range []string{"other issuer", "inactive", "no active", "string", "expired", "no subject", "number",
		"certificate", "unknown"} {
		var invalid *auth.InvalidTokenError
		info, err := v.Verify(t.Context(), token)
		must.CheckThat(t, errors.As(err, &invalid), "%s: %v, %v", token, info, err)
	}
}

func TestResponsesAreCached(t *testing.T) {
	now := time.Now()
	i := newEndpoint(t, map[string]object{
		"good":  {"active": true, "sub": "ada"},
		"brief": {"active": true, "sub": "ada", "exp": now.Add(5 * time.Second).Unix()},
	})
	v := i.verifier(&now)
	verify := func(token string, want int32, after time.Duration) {
		t.Helper()
		now = now.Add(after)
		before := i.requests.Load()
		_, _ = v.Verify(t.Context(), token)
		must.CheckEqual(t, i.requests.Load()-before, want, token)
	}
	verify("good", 1, 0)
	verify("good", 0, 14*time.Second)
	verify("good", 1, 2*time.Second)
	verify("bad", 1, 0)
	verify("bad", 0, time.Second)
	now = now.Add(-17 * time.Second)
	verify("brief", 1, 0)
	verify("brief", 0, 4*time.Second)
	verify("brief", 1, 2*time.Second)
	v = i.verifier(&now)
	v.CacheFor = -1
	verify("good", 1, 0)
	verify("good", 1, 0)
}

func TestEndpointFailuresDoNotInvalidateTokens(t *testing.T) {
	now := time.Now()
	i := newEndpoint(t, nil)
	wrong := i.verifier(&now)
	wrong.ClientSecret = "wrong"
	_, err := wrong.Verify(t.Context(), "planted-token")
	must.CheckThat(t, errors.Is(err, auth.ErrUnavailable) && !strings.Contains(err.Error(), "planted") &&
		!strings.Contains(err.Error(), "wrong"), "wrong secret: %v", err)
	malformed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", body)
	}))
	defer malformed.Close()
	repeating := i.verifier(&now)
	repeating.Endpoint = malformed.URL
	if _, err := repeating.Verify(t.Context(), "planted-token"); !errors.Is(err, auth.ErrUnavailable) ||
		strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("malformed response that repeats the request: %v", err)
	}
	for name, body := range map[string]string{"not JSON": "<html>", "array": `[]`,
		"error with status 200": `{"error":"invalid_client"}`, "duplicate name": `{"active":true,"active":false}`,
		"empty": ""} {
		broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}))
		v := i.verifier(&now)
		v.Endpoint = broken.URL
		must.CheckIs(t, must.Err(v.Verify(t.Context(), "token")), auth.ErrUnavailable, name)
		broken.Close()
	}
	for _, v := range []*introspection.Verifier{{}, {Endpoint: "http://as.example.com",
		Issuer: "https://as.example.com"}, {Endpoint: "https://as.example.com"}} {
		must.CheckThat(t, v.Check() != nil, "%q of %q is accepted", v.Endpoint, v.Issuer)
	}
}

func TestConcurrentRequestsAreLimited(t *testing.T) {
	now := time.Now()
	release := make(chan struct{})
	var waiting atomic.Int32
	full := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if waiting.Add(1) == 64 {
			close(full)
		}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"active":false}`))
	}))
	defer slow.Close()
	v := &introspection.Verifier{Endpoint: slow.URL, Issuer: "https://as.example.com",
		Now: func() time.Time { return now }}
	done := make(chan error)
	for n := range 64 {
		go func() {
			_, err := v.Verify(t.Context(), "t"+strings.Repeat("x", n))
			done <- err
		}()
	}
	<-full
	must.CheckIs(t, must.Err(v.Verify(t.Context(), "t65")), auth.ErrUnavailable, "65th request")
	close(release)
	for range 64 {
		<-done
	}
}

// The clock of the authorization server may be ahead. The endpoint is asked again about a token that is
// not valid yet.
func TestClocksMayDiffer(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) int64 { return start.Add(d).Unix() }
	token := func(from time.Duration) object {
		return object{"active": true, "sub": "ada", "client_id": "c", "aud": self, "iat": at(from), "nbf": at(from),
			"exp": at(time.Hour)}
	}
	i := newEndpoint(t, map[string]object{"ahead": token(20 * time.Second), "later": token(31 * time.Second),
		"expired": {"active": true, "sub": "ada", "client_id": "c", "aud": self, "exp": at(-20 * time.Second)}})
	now := start
	v := i.verifier(&now)
	for token, valid := range map[string]bool{"ahead": true, "expired": true, "later": false} {
		_, err := v.Verify(t.Context(), token)
		must.CheckEqual(t, err == nil, valid, token, err)
	}
	now = start.Add(2 * time.Second) // the leeway is 30 s, and a rejection of another kind is still cached
	must.Check(t, must.Err(v.Verify(t.Context(), "later")), "a rejection because of the time was cached")
}

func TestAResponseMayBeginWithALineBreak(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "\r\n\t {\"active\":true,\"sub\":\"ada\",\"client_id\":\"c\",\"aud\":\""+self+"\"}\n")
	}))
	defer s.Close()
	v := &introspection.Verifier{Endpoint: s.URL, Issuer: "https://as.example.com"}
	must.Check(t, must.Err(v.Verify(t.Context(), "good")))
}

// Rule R9: the endpoints of some authorization servers say that ID tokens and refresh tokens are active.
func TestActiveTokensThatGiveNoAccessAreInvalid(t *testing.T) {
	now := time.Now()
	active := object{"active": true, "sub": "ada", "client_id": "editor", "aud": self}
	idToken := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+self+`","nonce":"n"}`)) + ".c2ln"
	accessToken := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+self+`"}`)) + ".c2ln"
	i := newEndpoint(t, map[string]object{
		"good":  with(active, object{"token_type": "Bearer", "token_use": "access_token", "typ": "Bearer"}),
		"plain": active, accessToken: active, idToken: active, "at_hash": with(active, object{"at_hash": "h"}),
		"hydra": with(active, object{"token_use": "refresh_token"}), "keycloak": with(active, object{"typ": "Refresh"}),
		"cognito": with(active, object{"token_use": "id"}),
	})
	v := i.verifier(&now)
	for token, ok := range map[string]bool{"good": true, "plain": true, accessToken: true, idToken: false,
		"at_hash": false, "hydra": false, "keycloak": false, "cognito": false} {
		_, err := v.Verify(t.Context(), token)
		if invalid := new(auth.InvalidTokenError); (err == nil) != ok || err != nil && (!errors.As(err, &invalid) ||
			!strings.Contains(invalid.Reason, "send the access token")) {
			t.Errorf("%s: %v", token, err)
		}
	}
}

// Google's endpoint takes the token as credentials and returns numbers as strings.
func TestTokensOfGoogle(t *testing.T) {
	now := time.Now()
	respond := object{"azp": "client.apps.example", "aud": "client.apps.example", "sub": "1", "scope": "openid email",
		"exp": strconv.FormatInt(now.Add(time.Hour).Unix(), 10), "expires_in": "3600", "email_verified": "true"}
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		document := respond
		switch token := r.Header.Get("Authorization"); {
		case r.Method != http.MethodPost || r.URL.RawQuery != "" || len(body) > 0:
			t.Errorf("%s %s with the body %s", r.Method, r.URL, body)
		case token == "Bearer ya29.expired":
			document = with(respond, object{"exp": strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)})
		case token == "Bearer ya29.forever":
			document = with(respond, object{"exp": nil})
		case token == "Bearer ya29.broken":
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(token, "Bearer e30."):
			t.Error("the endpoint was asked about an ID token")
		case token != "Bearer ya29.good":
			w.WriteHeader(http.StatusBadRequest)
			document = object{"error": "invalid_token", "error_description": "Invalid Value"}
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(google.Close)
	v := &introspection.Verifier{TokenInfo: true, Endpoint: google.URL, Now: func() time.Time { return now }}
	info := must.Get(v.Verify(t.Context(), "ya29.good"))(t)
	must.CheckEqual(t, info.Principal.String(), "1 at https://accounts.google.com through client.apps.example")
	must.CheckEqual(t, strings.Join(info.Scopes, " "), "openid email")
	must.CheckEqual(t, info.Audience[0], "client.apps.example")
	must.CheckEqual(t, info.Expiry.Unix(), now.Add(time.Hour).Unix())
	for _, token := range []string{"ya29.expired", "ya29.forever", "unknown",
		"e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"client.apps.example"}`)) + ".c2ln"} {
		_, err := v.Verify(t.Context(), token)
		must.CheckThat(t, errors.As(err, new(*auth.InvalidTokenError)), "%s: %v", token, err)
	}
	must.CheckIs(t, must.Err(v.Verify(t.Context(), "ya29.broken")), auth.ErrUnavailable)
	must.Check(t, (&introspection.Verifier{TokenInfo: true}).Check())
}

func TestScopesComeFromTheConfiguredClaim(t *testing.T) {
	now := time.Now()
	i := newEndpoint(t, map[string]object{"good": {"active": true, "sub": "ada", "scope": "a",
		"realm_access": object{"roles": []string{"b", "c"}}}})
	v := i.verifier(&now)
	v.ScopesFrom = "realm_access.roles"
	must.CheckEqual(t, strings.Join(must.Get(v.Verify(t.Context(), "good"))(t).Scopes, " "), "b c")
}
