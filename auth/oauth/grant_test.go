package oauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/parley-mcp/parley/auth/oauth"
)

// unsignedJWT returns a JWT with a dummy signature.
func unsignedJWT(header, claims map[string]any) string {
	part := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(header) + "." + part(claims) + ".c2ln"
}

const (
	idp      = "https://idp.example"
	as       = "https://as.example"
	resource = "https://mcp.example/mcp"
	clientID = "our-client"
)

// Rule O16: an ID-JAG for another authorization server, resource or client is rejected.
func TestInvalidIDJAGIsRejected(t *testing.T) {
	for name, change := range map[string]func(body, header, claims map[string]any){
		"":                          func(a, h, c map[string]any) {},
		"another typ":               func(a, h, c map[string]any) { h["typ"] = "JWT" },
		"no typ":                    func(a, h, c map[string]any) { delete(h, "typ") },
		"not signed":                func(a, h, c map[string]any) { h["alg"] = "none" },
		"another audience":          func(a, h, c map[string]any) { c["aud"] = "https://other.example" },
		"two audiences":             func(a, h, c map[string]any) { c["aud"] = []string{as, "https://other.example"} },
		"another resource":          func(a, h, c map[string]any) { c["resource"] = "https://other.example" },
		"another client":            func(a, h, c map[string]any) { c["client_id"] = "other" },
		"no client":                 func(a, h, c map[string]any) { delete(c, "client_id") },
		"another issuer":            func(a, h, c map[string]any) { c["iss"] = "https://other.example" },
		"expired":                   func(a, h, c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no expiry":                 func(a, h, c map[string]any) { delete(c, "exp") },
		"no subject":                func(a, h, c map[string]any) { delete(c, "sub") },
		"another issued_token_type": func(a, h, c map[string]any) { a["issued_token_type"] = "urn:ietf:params:oauth:token-type:jwt" },
		"another token_type":        func(a, h, c map[string]any) { a["token_type"] = "Bearer" },
		"not a JWT":                 func(a, h, c map[string]any) { a["access_token"] = "opaque" },
	} {
		header := map[string]any{"typ": "oauth-id-jag+jwt", "alg": "ES256"}
		claims := map[string]any{
			"iss": idp, "sub": "u", "aud": as, "resource": resource, "client_id": clientID, "jti": "1",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		}
		body := map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A"}
		change(body, header, claims)
		if body["access_token"] == nil {
			body["access_token"] = unsignedJWT(header, claims)
		}
		raw, _ := json.Marshal(body)
		got, err := oauth.ReadIDJAG(raw, idp, as, resource, clientID)
		if valid := name == ""; valid != (err == nil) || valid != (got != "") || !valid && !errors.Is(err, oauth.ErrInvalidResponse) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Rules O2, O16: Enterprise exchanges the grant of the identity provider for a token. Both requests
// name the server.
func TestEnterpriseGrant(t *testing.T) {
	w := newEnvironment(t)
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool { // also the identity provider
		if r.URL.Path != "/exchange" {
			return false
		}
		r.ParseForm()
		w.mu.Lock()
		w.forms = append(w.forms, r.PostForm)
		w.mu.Unlock()
		w.json(rw, http.StatusOK, map[string]any{
			"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A",
			"access_token": unsignedJWT(map[string]any{"typ": "oauth-id-jag+jwt", "alg": "ES256"}, map[string]any{
				"iss": idp, "sub": "u", "aud": w.as.URL, "resource": w.url(), "client_id": clientID, "exp": time.Now().Add(time.Minute).Unix(),
			}),
		})
		return true
	}
	c := w.client()
	c.Registrations = []oauth.Registration{{Issuer: w.as.URL, ClientID: clientID, ClientSecret: secret + "ours"}}
	c.Grant = &oauth.Enterprise{
		Issuer: idp, TokenEndpoint: w.as.URL + "/exchange", ClientID: "at-idp",
		Subject: func(context.Context) (string, error) { return secret + "identity", nil },
	}
	if _, err := w.dial(c, ""); err != nil {
		t.Fatal(err)
	}
	exchange, grant := w.forms[0], w.forms[1]
	if exchange.Get("audience") != w.as.URL || exchange.Get("resource") != w.url() || exchange.Get("client_id") != "at-idp" || exchange.Get("subject_token") != secret+"identity" {
		t.Errorf("token exchange: %v", exchange)
	}
	if grant.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || grant.Get("resource") != w.url() {
		t.Errorf("token request: %v", grant)
	}
}

func TestGrantsWithoutUser(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		grant oauth.Grant
		with  oauth.Registration
		check func(url.Values) bool
	}{
		"client_secret_basic": {&oauth.ClientCredentials{}, oauth.Registration{ClientSecret: secret + "m"}, func(f url.Values) bool { return f.Get("client_secret") == "" }},
		"private_key_jwt":     {&oauth.ClientCredentials{}, oauth.Registration{Key: &oauth.SigningKey{Key: key}}, func(f url.Values) bool { return f.Get("client_assertion") != "" && f.Get("client_id") == "" }},
		"client_secret_post":  {&oauth.ClientCredentials{}, oauth.Registration{ClientSecret: secret + "m", Method: "client_secret_post"}, func(f url.Values) bool { return f.Get("client_secret") == secret+"m" }},
		"workload":            {&oauth.Workload{Assertion: func(_ context.Context, audience string) (string, error) { return "jwt-for-" + audience, nil }}, oauth.Registration{Method: "none"}, func(f url.Values) bool { return strings.HasPrefix(f.Get("assertion"), "jwt-for-http") }},
	} {
		w := newEnvironment(t)
		c := w.client()
		c.Interaction, c.Grant = nil, tc.grant
		tc.with.Server, tc.with.ClientID = w.url(), clientID
		c.Registrations = []oauth.Registration{tc.with}
		if _, err := w.dial(c, ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f := w.forms[0]; !tc.check(f) || f.Get("resource") != w.url() || f.Get("scope") != "tools" {
			t.Errorf("%s: token request %v", name, f)
		}
	}
}

// Rule U7: each request with a DPoP token has a proof with the current nonce of the server.
func TestDPoPTokensAreSentWithProofs(t *testing.T) {
	w := newEnvironment(t)
	proofs := map[string]bool{}
	proof := func(r *http.Request, token string) (nonce string) {
		parts := strings.Split(r.Header.Get("DPoP"), ".")
		if len(parts) != 3 {
			t.Fatalf("%s %s: proof %q", r.Method, r.URL, r.Header.Get("DPoP"))
		}
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		var claims struct{ Htm, Htu, Jti, Ath, Nonce string }
		json.Unmarshal(raw, &claims)
		if claims.Htm != r.Method || !strings.HasSuffix(claims.Htu, r.URL.Path) || proofs[claims.Jti] || (claims.Ath != "") != (token != "") {
			t.Errorf("%s %s: claims of the proof %s", r.Method, r.URL, raw)
		}
		proofs[claims.Jti] = true
		return claims.Nonce
	}
	w.onResource = func(m map[string]any) { m["dpop_bound_access_tokens_required"] = true }
	w.onToken = func(_ url.Values, a map[string]any) { a["token_type"] = "DPoP" }
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" || proof(r, "") == "as-nonce" {
			return false
		}
		rw.Header().Set("DPoP-Nonce", "as-nonce")
		w.json(rw, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
		return true
	}
	accepted := 0
	w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			t.Errorf("sent %q", r.Header.Get("Authorization"))
		}
		want := fmt.Sprint("nonce-", accepted/3) // changes after three requests
		if proof(r, "token") == want {
			accepted++
			return false
		}
		rw.Header().Set("DPoP-Nonce", want)
		w.challenge(rw, http.StatusUnauthorized, "DPoP", "", "use_dpop_nonce")
		return true
	}
	mc, err := w.dial(w.client(), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := w.greet(mc); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count("as GET /authorize"); n != 1 {
		t.Errorf("%d authorizations", n)
	}
}

// Rules U8, R3: a token is sent only to the server that it was issued for, even if two servers
// have the same Client and authorization server.
func TestTokensAreSentToTheirServerOnly(t *testing.T) {
	a, b := newEnvironment(t), newEnvironment(t)
	c := a.client()
	b.onResource = func(m map[string]any) { m["authorization_servers"] = []string{a.as.URL} }
	for _, w := range []*environment{a, b} {
		if h, err := authorize(c, w.url()); h != "" || err != nil {
			t.Fatal(h, err)
		}
	}
	if err := c.Login(t.Context(), a.url()); err != nil {
		t.Fatal(err)
	}
	if h, err := authorize(c, b.url()); h != "" || err != nil {
		t.Fatalf("the other server receives %q, %v", h, err)
	}
	a.dialed = nil
	if err := c.Login(t.Context(), b.url()); err != nil {
		t.Fatal(err)
	}
	ha, _ := authorize(c, a.url())
	hb, _ := authorize(c, b.url())
	if ha == hb || ha == "" || hb == "" {
		t.Fatalf("the servers receive %q and %q", ha, hb)
	}
	if n := a.count("as POST /register"); n != 1 {
		t.Errorf("O7: %d registrations at one authorization server", n)
	}
	a.dialed = nil
}

func TestTokenSourceAuthorizesOneServer(t *testing.T) {
	s := oauth.FromTokenSource("https://mcp.example/mcp", oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "x"}))
	for server, want := range map[string]string{"https://mcp.example/mcp": "Bearer x", "https://mcp.example/other": ""} {
		req, _ := http.NewRequest(http.MethodPost, server, nil)
		if err := s.Authorize(req, server); err != nil || req.Header.Get("Authorization") != want {
			t.Errorf("%s receives %q, %v", server, req.Header.Get("Authorization"), err)
		}
	}
}
