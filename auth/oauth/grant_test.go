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

// jwt is unsigned but for the look of it.
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
	ours     = "our-client"
)

// O16: a grant that goes elsewhere, or is about somebody else, is not passed on.
func TestO16AGrantThatIsNotForUsIsNotUsed(t *testing.T) {
	for what, change := range map[string]func(answer, header, claims map[string]any){
		"":                        func(a, h, c map[string]any) {},
		"another typ":             func(a, h, c map[string]any) { h["typ"] = "JWT" },
		"no typ":                  func(a, h, c map[string]any) { delete(h, "typ") },
		"not signed":              func(a, h, c map[string]any) { h["alg"] = "none" },
		"another audience":        func(a, h, c map[string]any) { c["aud"] = "https://other.example" },
		"two audiences":           func(a, h, c map[string]any) { c["aud"] = []string{as, "https://other.example"} },
		"another resource":        func(a, h, c map[string]any) { c["resource"] = "https://other.example" },
		"another client":          func(a, h, c map[string]any) { c["client_id"] = "theirs" },
		"no client":               func(a, h, c map[string]any) { delete(c, "client_id") },
		"another issuer":          func(a, h, c map[string]any) { c["iss"] = "https://other.example" },
		"expired":                 func(a, h, c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no expiry":               func(a, h, c map[string]any) { delete(c, "exp") },
		"no subject":              func(a, h, c map[string]any) { delete(c, "sub") },
		"another type of token":   func(a, h, c map[string]any) { a["issued_token_type"] = "urn:ietf:params:oauth:token-type:jwt" },
		"an access token instead": func(a, h, c map[string]any) { a["token_type"] = "Bearer" },
		"no JWT":                  func(a, h, c map[string]any) { a["access_token"] = "opaque" },
	} {
		header := map[string]any{"typ": "oauth-id-jag+jwt", "alg": "ES256"}
		claims := map[string]any{
			"iss": idp, "sub": "u", "aud": as, "resource": resource, "client_id": ours, "jti": "1",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		}
		answer := map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A"}
		change(answer, header, claims)
		if answer["access_token"] == nil {
			answer["access_token"] = unsignedJWT(header, claims)
		}
		body, _ := json.Marshal(answer)
		got, err := oauth.ReadIDJAG(body, idp, as, resource, ours)
		if good := what == ""; good != (err == nil) || good != (got != "") || !good && !errors.Is(err, oauth.ErrInvalidResponse) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// O2, O16: an identity provider's grant is traded for a token, each with what names the
// server.
func TestAnEnterpriseGrantIsTradedForAToken(t *testing.T) {
	w := newWorld(t)
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool { // it is the identity provider too
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
				"iss": idp, "sub": "u", "aud": w.as.URL, "resource": w.url(), "client_id": ours, "exp": time.Now().Add(time.Minute).Unix(),
			}),
		})
		return true
	}
	c := w.client()
	c.Registrations = []oauth.Registration{{Issuer: w.as.URL, ClientID: ours, ClientSecret: secret + "ours"}}
	c.Grant = &oauth.Enterprise{
		Issuer: idp, TokenEndpoint: w.as.URL + "/exchange", ClientID: "at-idp",
		Subject: func(context.Context) (string, error) { return secret + "identity", nil },
	}
	if _, err := w.dial(c, ""); err != nil {
		t.Fatal(err)
	}
	exchange, grant := w.forms[0], w.forms[1]
	if exchange.Get("audience") != w.as.URL || exchange.Get("resource") != w.url() || exchange.Get("client_id") != "at-idp" || exchange.Get("subject_token") != secret+"identity" {
		t.Errorf("exchanged with %v", exchange)
	}
	if grant.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || grant.Get("resource") != w.url() {
		t.Errorf("traded with %v", grant)
	}
}

func TestMachinesHaveNoUser(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		grant oauth.Grant
		with  oauth.Registration
		check func(url.Values) bool
	}{
		"a secret":     {&oauth.ClientCredentials{}, oauth.Registration{ClientSecret: secret + "m"}, func(f url.Values) bool { return f.Get("client_secret") == "" }},
		"a key":        {&oauth.ClientCredentials{}, oauth.Registration{Key: &oauth.SigningKey{Key: key}}, func(f url.Values) bool { return f.Get("client_assertion") != "" && f.Get("client_id") == "" }},
		"in the form":  {&oauth.ClientCredentials{}, oauth.Registration{ClientSecret: secret + "m", Method: "client_secret_post"}, func(f url.Values) bool { return f.Get("client_secret") == secret+"m" }},
		"its platform": {&oauth.Workload{Assertion: func(_ context.Context, audience string) (string, error) { return "jwt-for-" + audience, nil }}, oauth.Registration{Method: "none"}, func(f url.Values) bool { return strings.HasPrefix(f.Get("assertion"), "jwt-for-http") }},
	} {
		w := newWorld(t)
		c := w.client()
		c.Interaction, c.Grant = nil, tc.grant
		tc.with.Server, tc.with.ClientID = w.url(), ours
		c.Registrations = []oauth.Registration{tc.with}
		if _, err := w.dial(c, ""); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if f := w.forms[0]; !tc.check(f) || f.Get("resource") != w.url() || f.Get("scope") != "tools" {
			t.Errorf("%s: asked with %v", what, f)
		}
	}
}

// U7: a token that is bound to a key comes with a proof for each request, with the
// nonces that both servers want.
func TestABoundTokenComesWithAProof(t *testing.T) {
	w := newWorld(t)
	proofs := map[string]bool{}
	proof := func(r *http.Request, token string) (nonce string) {
		parts := strings.Split(r.Header.Get("DPoP"), ".")
		if len(parts) != 3 {
			t.Fatalf("%s %s has the proof %q", r.Method, r.URL, r.Header.Get("DPoP"))
		}
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		var claims struct{ Htm, Htu, Jti, Ath, Nonce string }
		json.Unmarshal(raw, &claims)
		if claims.Htm != r.Method || !strings.HasSuffix(claims.Htu, r.URL.Path) || proofs[claims.Jti] || (claims.Ath != "") != (token != "") {
			t.Errorf("the proof of %s %s says %s", r.Method, r.URL, raw)
		}
		proofs[claims.Jti] = true
		return claims.Nonce
	}
	w.prm = func(m map[string]any) { m["dpop_bound_access_tokens_required"] = true }
	w.onToken = func(_ url.Values, a map[string]any) { a["token_type"] = "DPoP" }
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" || proof(r, "") == "as-nonce" {
			return false
		}
		rw.Header().Set("DPoP-Nonce", "as-nonce")
		w.json(rw, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
		return true
	}
	answered := 0
	w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			t.Errorf("sent %q", r.Header.Get("Authorization"))
		}
		want := fmt.Sprint("nonce-", answered/3) // changes now and then
		if proof(r, "token") == want {
			answered++
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
		t.Errorf("the user was asked %d times", n)
	}
}

// U8, R3: a token goes to the server that it was issued for, though one Client knows
// several, and one server names the other's authorization server.
func TestU8TokensStayWithTheirServer(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	c := a.client()
	b.prm = func(m map[string]any) { m["authorization_servers"] = []string{a.as.URL} }
	for _, w := range []*world{a, b} {
		if h, err := authorize(c, w.url()); h != "" || err != nil {
			t.Fatal(h, err)
		}
	}
	if err := c.Login(t.Context(), a.url()); err != nil {
		t.Fatal(err)
	}
	if h, err := authorize(c, b.url()); h != "" || err != nil {
		t.Fatalf("the other server gets %q, %v", h, err)
	}
	a.egress = nil
	if err := c.Login(t.Context(), b.url()); err != nil {
		t.Fatal(err)
	}
	ha, _ := authorize(c, a.url())
	hb, _ := authorize(c, b.url())
	if ha == hb || ha == "" || hb == "" {
		t.Fatalf("both servers get %q and %q", ha, hb)
	}
	if n := a.count("as POST /register"); n != 1 {
		t.Errorf("O7: one authorization server was registered at %d times", n)
	}
	a.egress = nil
}

func TestATokenSourceIsForOneServer(t *testing.T) {
	s := oauth.FromTokenSource("https://mcp.example/mcp", oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "x"}))
	for server, want := range map[string]string{"https://mcp.example/mcp": "Bearer x", "https://mcp.example/other": ""} {
		req, _ := http.NewRequest(http.MethodPost, server, nil)
		if err := s.Authorize(req, server); err != nil || req.Header.Get("Authorization") != want {
			t.Errorf("%s gets %q, %v", server, req.Header.Get("Authorization"), err)
		}
	}
}
