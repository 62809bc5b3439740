package oauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

var revisions = []mcp.Revision{"", mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

// Rules O1, O2, O8, U7: in every revision, a challenge leads to an authorization with PKCE,
// state and resource, after which the request succeeds.
func TestChallengeStartsAuthorizationInEveryRevision(t *testing.T) {
	for _, r := range revisions {
		t.Run(string(r), func(t *testing.T) {
			w := newEnvironment(t)
			must.Get(w.Dial(w.Client(), r))(t)
			must.Equal(t, w.Count("as GET /authorize"), 1)
			q, form := w.Queries[0], w.Forms[0]
			for name, want := range map[string]string{
				"response_type": "code", "client_id": "client", "redirect_uri": "http://localhost:3000/callback",
				"code_challenge_method": "S256", "resource": w.URL(), "scope": "tools",
			} {
				must.CheckEqual(t, q.Get(name), want, name)
			}
			if len(q.Get("state")) < 22 || len(form.Get("code_verifier")) < 43 {
				t.Errorf("state %q and verifier %q are too short", q.Get("state"), form.Get("code_verifier"))
			}
			if form.Get("resource") != q.Get("resource") || form.Get("redirect_uri") != q.Get("redirect_uri") {
				t.Errorf("token request %v does not match authorization request %v", form, q)
			}
			w.Mu.Lock()
			defer w.Mu.Unlock()
			must.CheckContains(t, w.Bodies[0], `"application_type":"native"`)
		})
	}
}

func registration(id string) func(context.Context, string) (*oauth.Registration, error) {
	return func(context.Context, string) (*oauth.Registration, error) {
		return &oauth.Registration{ClientID: id}, nil
	}
}

func TestConcurrentRequestsShareOneAuthorization(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { must.Check(t, must.Err(w.Dial(c, ""))) })
	}
	all.Wait()
	must.Equal(t, w.Count("as GET /authorize"), 1)
}

func TestTimeoutsPauseWhileTheUserLogsIn(t *testing.T) {
	t.Parallel()
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		w := newEnvironment(t)
		c := w.Client()
		const timeout = 1500 * time.Millisecond
		c.Interaction = &logintest.Interaction{RedirectURI: "http://localhost:3000/callback",
			Open: func(ctx context.Context, url string) (string, error) {
				select { // wait longer than the time-out
				case <-time.After(timeout + 500*time.Millisecond):
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
				return oauthtest.OpenPage(ctx, url)
			}}
		d := client.Dialer{Auth: c, Revision: r, Timeouts: client.Timeouts{Initialize: timeout}}
		mc, err := d.Dial(t.Context(), client.URL(w.URL()))
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		mc.Close()
	}
}

// Rule C1: caches keep the results of different tokens apart.
func TestIdentityDependsOnTheToken(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	must.CheckEqual(t, c.Identity(w.URL()), "")
	seen := map[string]bool{"": true}
	for range 2 {
		must.Do(t, c.Login(t.Context(), w.URL()))
		got := c.Identity(w.URL())
		must.CheckThat(t, !seen[got] && !strings.Contains(got, oauthtest.Secret) && got == c.Identity(w.URL()),
			"after a login: %q", got)
		seen[got] = true
	}
	must.Do(t, c.Logout(t.Context(), w.URL()))
	must.CheckEqual(t, c.Identity(w.URL()), "")
}

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
		"":                 func(a, h, c map[string]any) {},
		"another typ":      func(a, h, c map[string]any) { h["typ"] = "JWT" },
		"no typ":           func(a, h, c map[string]any) { delete(h, "typ") },
		"not signed":       func(a, h, c map[string]any) { h["alg"] = "none" },
		"another audience": func(a, h, c map[string]any) { c["aud"] = "https://other.example" },
		"two audiences":    func(a, h, c map[string]any) { c["aud"] = []string{as, "https://other.example"} },
		"another resource": func(a, h, c map[string]any) { c["resource"] = "https://other.example" },
		"another client":   func(a, h, c map[string]any) { c["client_id"] = "other" },
		"no client":        func(a, h, c map[string]any) { delete(c, "client_id") },
		"another issuer":   func(a, h, c map[string]any) { c["iss"] = "https://other.example" },
		"expired":          func(a, h, c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no expiry":        func(a, h, c map[string]any) { delete(c, "exp") },
		"no subject":       func(a, h, c map[string]any) { delete(c, "sub") },
		"another issued_token_type": func(a, h, c map[string]any) {
			a["issued_token_type"] = "urn:ietf:params:oauth:token-type:jwt"
		},
		"another token_type": func(a, h, c map[string]any) { a["token_type"] = "Bearer" },
		"not a JWT":          func(a, h, c map[string]any) { a["access_token"] = "opaque" },
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
		valid := name == ""
		must.CheckThat(t, valid == (err == nil) && valid == (got != "") &&
			(valid || errors.Is(err, oauth.ErrInvalidResponse)), "%q: %v", name, err)
	}
}

// grantsAt makes the authorization server an identity provider, too, which exchanges tokens for grants at path.
func (w *environment) grantsAt(path string) {
	w.ServeAS = oauthtest.Only(path, func(rw http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		w.Mu.Lock()
		w.Forms = append(w.Forms, r.PostForm)
		w.Mu.Unlock()
		w.JSON(rw, http.StatusOK, map[string]any{
			"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A",
			"access_token": unsignedJWT(map[string]any{"typ": "oauth-id-jag+jwt", "alg": "ES256"}, map[string]any{
				"iss": idp, "sub": r.PostForm.Get("subject_token"), "aud": w.AS.URL, "resource": w.URL(),
				"client_id": clientID,
				"exp":       time.Now().Add(time.Minute).Unix(),
			}),
		})
	})
}

// Rules O2, O16: Enterprise exchanges the grant of the identity provider for a token. Both requests name the server.
func TestEnterpriseGrant(t *testing.T) {
	w := newEnvironment(t)
	w.grantsAt("/exchange")
	enterprise := func(issuer string) *oauth.Client {
		c := w.Client()
		c.Registrations = []oauth.Registration{{Issuer: w.AS.URL, ClientID: clientID,
			ClientSecret: oauthtest.Secret + "ours"}}
		c.Grant = &oauth.Enterprise{
			Registration: oauth.Registration{Issuer: issuer, ClientID: "at-idp"}, TokenEndpoint: w.AS.URL + "/exchange",
			Subject: func(context.Context) (string, error) { return oauthtest.Secret + "identity", nil },
		}
		return c
	}
	must.Get(w.Dial(enterprise(idp), ""))(t)
	exchange, grant := w.Forms[0], w.Forms[1]
	must.CheckThat(t, exchange.Get("audience") == w.AS.URL && exchange.Get("resource") == w.URL() &&
		exchange.Get("client_id") == "at-idp" && exchange.Get("subject_token") == oauthtest.Secret+"identity",
		"token exchange: %v", exchange)
	must.CheckThat(t, grant.Get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer" &&
		grant.Get("resource") == w.URL(), "token request: %v", grant)
	if _, err := w.Dial(enterprise("https://other.example"), ""); !errors.Is(err, oauth.ErrInvalidResponse) ||
		len(w.Forms) != 3 {
		t.Errorf("grant of another identity provider: %v; requests %v", err, w.Forms)
	}
}

func TestGrantsWithoutUser(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for name, tc := range map[string]struct {
		grant oauth.Grant
		with  oauth.Registration
		check func(url.Values) bool
	}{
		"client_secret_basic": {&oauth.ClientCredentials{}, oauth.Registration{ClientSecret: oauthtest.Secret + "m"},
			func(f url.Values) bool { return f.Get("client_secret") == "" }},
		"private_key_jwt": {&oauth.ClientCredentials{}, oauth.Registration{Key: &oauth.SigningKey{Key: key}},
			func(f url.Values) bool { return f.Get("client_assertion") != "" && f.Get("client_id") == "" }},
		"client_secret_post": {&oauth.ClientCredentials{},
			oauth.Registration{ClientSecret: oauthtest.Secret + "m", Method: "client_secret_post"},
			func(f url.Values) bool { return f.Get("client_secret") == oauthtest.Secret+"m" }},
		"workload": {&oauth.Workload{Assertion: func(_ context.Context, audience string) (string, error) {
			return "jwt-for-" + audience, nil
		}}, oauth.Registration{Method: "none"}, func(f url.Values) bool {
			return strings.HasPrefix(f.Get("assertion"), "jwt-for-http") && f.Get("client_id") == clientID
		}},
	} {
		w := newEnvironment(t)
		c := w.Client()
		c.Interaction, c.Grant = nil, tc.grant
		tc.with.Server, tc.with.ClientID = w.URL(), clientID
		c.Registrations = []oauth.Registration{tc.with}
		must.Do(t, must.Err(w.Dial(c, "")), name)
		if f := w.Forms[0]; !tc.check(f) || f.Get("resource") != w.URL() || f.Get("scope") != "tools" {
			t.Errorf("%s: token request %v", name, f)
		}
	}
}

// Rule U7: each request with a DPoP token carries a proof with the current nonce of the server.
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
		must.CheckThat(t, claims.Htm == r.Method && strings.HasSuffix(claims.Htu, r.URL.Path) && !proofs[claims.Jti] &&
			(claims.Ath != "") == (token != ""), "%s %s: claims of the proof %s", r.Method, r.URL, raw)
		proofs[claims.Jti] = true
		return claims.Nonce
	}
	w.OnResource = func(m map[string]any) { m["dpop_bound_access_tokens_required"] = true }
	w.OnToken = func(_ url.Values, a map[string]any) { a["token_type"] = "DPoP" }
	w.ServeAS = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" || proof(r, "") == "as-nonce" {
			return false
		}
		rw.Header().Set("DPoP-Nonce", "as-nonce")
		w.JSON(rw, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
		return true
	}
	accepted := 0
	w.Authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			t.Errorf("sent %q", r.Header.Get("Authorization"))
		}
		want := fmt.Sprint("nonce-", accepted/3) // changes after three requests
		if proof(r, "token") == want {
			accepted++
			return false
		}
		rw.Header().Set("DPoP-Nonce", want)
		w.Challenge(rw, http.StatusUnauthorized, "DPoP", "", "use_dpop_nonce")
		return true
	}
	mc := must.Get(w.Dial(w.Client(), ""))(t)
	for range 5 {
		must.Do(t, w.Greet(mc))
	}
	must.CheckEqual(t, w.Count("as GET /authorize"), 1)
}

// Rules U8, R3: a token is sent only to the server that it was issued for, even if two servers
// have the same Client and authorization server.
func TestTokensAreSentToTheirServerOnly(t *testing.T) {
	a, b := newEnvironment(t), newEnvironment(t)
	c := a.Client()
	b.OnResource = func(m map[string]any) { m["authorization_servers"] = []string{a.AS.URL} }
	for _, w := range []*environment{a, b} {
		h, err := authorize(c, w.URL())
		must.That(t, h == "" && err == nil, "%v %v", h, err)
	}
	must.Do(t, c.Login(t.Context(), a.URL()))
	h, err := authorize(c, b.URL())
	must.That(t, h == "" && err == nil, "the other server receives %q, %v", h, err)
	a.Dialed = nil
	must.Do(t, c.Login(t.Context(), b.URL()))
	ha, _ := authorize(c, a.URL())
	hb, _ := authorize(c, b.URL())
	must.That(t, ha != hb && ha != "" && hb != "", "the servers receive %q and %q", ha, hb)
	must.CheckEqual(t, a.Count("as POST /register"), 1)
	a.Dialed = nil
}

// If a login fails because of a connection, the error keeps the cause and its text.
func TestErrorsKeepTheCauseOfAFailedConnection(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	for issuer, test := range map[string]struct {
		text  string
		found func(error) bool
	}{
		untrusted.URL: {"x509: certificate signed by unknown authority",
			func(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }},
		"http://" + gone.Addr().String(): {"connection refused",
			func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"https://issuer.invalid": {"lookup issuer.invalid",
			func(err error) bool { return errors.As(err, new(*net.DNSError)) }},
	} {
		w := newEnvironment(t)
		w.OnResource = func(metadata map[string]any) { metadata["authorization_servers"] = []string{issuer} }
		c := &oauth.Client{Interaction: w.User()}
		err := c.Login(context.Background(), w.URL())
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), test.text) && test.found(err),
			"%s: %v, want the cause %q", issuer, err, test.text)
		if _, err := w.Dial(c, ""); err == nil || !strings.Contains(err.Error(), test.text) || !test.found(err) {
			t.Errorf("dial with %s: %v, want the cause %q", issuer, err, test.text)
		}
	}
}
