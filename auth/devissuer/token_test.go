package devissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/internal/must"
)

// newCode returns an authorization code.
func newCode(t *testing.T, i *Issuer) string {
	t.Helper()
	return authorize(t, new(Browser), page(i)).Get("code")
}

func TestCodeIsBoundToItsRequest(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other", RedirectURIs: []string{redirectURI}}}})
	for name, change := range map[string][]string{
		"no code":            {"code", "unknown"},
		"another client":     {"client_id", "other"},
		"another redirect":   {"redirect_uri", redirectURI + "2"},
		"no redirect":        {"redirect_uri", ""},
		"another verifier":   {"code_verifier", verifier + "x"},
		"no verifier":        {"code_verifier", ""},
		"the challenge":      {"code_verifier", challenge()},
		"another resource":   {"resource", resource + "2"},
		"another grant type": {"grant_type", "password"},
	} {
		form := []string{"grant_type", "authorization_code", "client_id", "editor", "code", newCode(t, i),
			"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource}
		for n := 0; n < len(form); n += 2 {
			if form[n] == change[0] {
				form[n+1] = change[1]
			}
		}
		if issued := token(t, i, form...); issued.Status != 400 || issued.Access != "" || issued.Error == "" {
			t.Errorf("%s: issued %+v", name, issued)
		}
	}
}

func TestSecondUseOfACodeRevokesItsTokens(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	value := newCode(t, i)
	first := redeem(t, i, value)
	must.Equal(t, first.Status, 200, first)
	if again := redeem(t, i, value); again.Error != "invalid_grant" {
		t.Errorf("second use: %+v", again)
	}
	if renewed := refreshWith(t, i, first.Refresh); renewed.Error != "invalid_grant" {
		t.Errorf("the refresh token is still valid: %+v", renewed)
	}
}

func TestReuseOfARefreshTokenRevokesTheGrant(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	first := redeem(t, i, newCode(t, i))
	second := refreshWith(t, i, first.Refresh)
	if second.Status != 200 || second.Refresh == first.Refresh || second.Access == first.Access ||
		second.Scope != "read write" {
		t.Fatalf("refreshed %+v", second)
	}
	less := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", second.Refresh, "scope",
		"read")
	must.Equal(t, less.Scope, "read", less)
	third := refreshWith(t, i, less.Refresh)
	must.Equal(t, third.Scope, "read write", third)
	if copied := refreshWith(t, i, first.Refresh); copied.Error != "invalid_grant" {
		t.Errorf("used refresh token: %+v", copied)
	}
	if after := refreshWith(t, i, third.Refresh); after.Error != "invalid_grant" {
		t.Errorf("the grant is still valid: %+v", after)
	}
}

func TestRefreshCannotExceedTheGrant(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other"}}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "other", "refresh_token",
		refresh); got.Error != "invalid_grant" {
		t.Errorf("another client: %+v", got)
	}
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh, "scope",
		"read admin"); got.Error != "invalid_scope" {
		t.Errorf("more scopes: %+v", got)
	}
}

func TestFailedRefreshKeepsTheToken(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	for _, wrong := range [][]string{{"scope", "read admin"}, {"resource", resource + "2"}} {
		form := append([]string{"grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh},
			wrong...)
		if got := token(t, i, form...); got.Status != 400 {
			t.Errorf("%v: %+v", wrong, got)
		}
	}
	if got := refreshWith(t, i, refresh); got.Status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestRevocation(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	form := url.Values{"client_id": {"editor"}, "token": {refresh}}.Encode()
	if got := post(t, i.URL()+"/revoke", "application/x-www-form-urlencoded", form); got.Status != 200 {
		t.Fatalf("%+v", got)
	}
	if got := refreshWith(t, i, refresh); got.Error != "invalid_grant" {
		t.Errorf("%+v", got)
	}
}

func TestClientAuthentication(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "batch", Secret: "s3cret"}}})
	own := func(id, secret string) []string {
		return []string{"grant_type", "client_credentials", "resource", resource, "scope", "read", "client_id", id,
			"client_secret", secret}
	}
	issued := token(t, i, own("batch", "s3cret")...)
	if issued.Status != 200 || issued.Refresh != "" || issued.Scope != "read" {
		t.Fatalf("issued %+v", issued)
	}
	if claims, err := verify(t, i, issued.Access); err != nil || claims.Subject != "batch" {
		t.Errorf("%+v, %v", claims, err)
	}
	for name, got := range map[string]response{
		"wrong secret":                token(t, i, own("batch", "s3cretx")...),
		"no secret":                   token(t, i, own("batch", "")...),
		"public client with a secret": token(t, i, own("editor", "x")...),
		"unknown client":              token(t, i, own("x", "")...),
	} {
		if got.Status != 401 || got.Error != "invalid_client" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := token(t, i, own("editor", "")...); got.Error != "unauthorized_client" {
		t.Errorf("public client: %+v", got)
	}
	basic := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}.Encode()
	r := must.Get(http.NewRequest(http.MethodPost, "http://x", nil))(t)
	r.SetBasicAuth("batch", "s3cret")
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic, "Authorization",
		r.Header.Get("Authorization")); got.Status != 200 {
		t.Errorf("HTTP Basic: %+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic+"&client_secret=s3cret",
		"Authorization", r.Header.Get("Authorization")); got.Error != "invalid_request" {
		t.Errorf("two methods: %+v", got)
	}
}

func TestTokenEndpointRequiresAForm(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	if got := post(t, i.URL()+"/token", "application/json",
		`{"grant_type":"client_credentials"}`); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded",
		"grant_type=refresh_token&grant_type=x&client_id=editor"); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
}

func register(t *testing.T, i *Issuer, body string) response {
	t.Helper()
	return post(t, i.URL()+"/register", "application/json", body)
}

func TestDynamicRegistration(t *testing.T) {
	i := start(t, Config{})
	c := register(t, i, `{"client_name":"An editor","application_type":"native","redirect_uris":["`+redirectURI+
		`"],"token_endpoint_auth_method":"none"}`)
	if c.Status != 201 || c.ID == "" || c.Secret != "" {
		t.Fatalf("registration %+v", c)
	}
	params := authorize(t, new(Browser), page(i, "client_id", c.ID))
	issued := token(t, i, "grant_type", "authorization_code", "client_id", c.ID, "code", params.Get("code"),
		"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource)
	must.CheckEqual(t, issued.Status, 200, issued)
	if c := register(t, i, `{"redirect_uris":["`+redirectURI+`"]}`); c.Status != 201 || c.Secret == "" {
		t.Errorf("confidential client: %+v", c)
	}
}

func TestInvalidRegistrationsAreRejected(t *testing.T) {
	i := start(t, Config{})
	for body, code := range map[string]string{
		`[]`:                      "invalid_client_metadata",
		`{}`:                      "invalid_redirect_uri",
		`{"redirect_uris":["x"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:  "invalid_redirect_uri",
		`{"redirect_uris":["http://web.example/"]}`:  "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/#f"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["https://u@a.example/"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["` + redirectURI +
			`"],"token_endpoint_auth_method":"private_key_jwt"}`: "invalid_client_metadata",
		`{"redirect_uris":[` + strings.Repeat(`"`+redirectURI+`",`, maxRedirects) + `"` + redirectURI +
			`"]}`: "invalid_redirect_uri",
		`{"client_name":"` + strings.Repeat("x", maxBody) +
			`"}`: "invalid_client_metadata",
	} {
		if got := register(t, i, body); got.Status != 400 || got.Error != code {
			t.Errorf("%.60s: %+v", body, got)
		}
	}
}

// prover is a client with a key.
type prover struct {
	t          *testing.T
	signer     jose.Signer
	thumbprint string
}

func newProver(t *testing.T) *prover {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	must.Do(t, err)
	sum := must.Get((&jose.JSONWebKey{Key: key.Public()}).Thumbprint(crypto.SHA256))(t)
	return &prover{t, signer, base64.RawURLEncoding.EncodeToString(sum)}
}

func (p *prover) proof(target string) string {
	p.t.Helper()
	claims, err := json.Marshal(map[string]any{"jti": rand.Text(), "htm": "POST", "htu": target,
		"iat": time.Now().Unix()})
	must.Do(p.t, err)
	signed := must.Get(p.signer.Sign(claims))(p.t)
	text := must.Get(signed.CompactSerialize())(p.t)
	return text
}

// prove sends a form to the token endpoint with a proof.
func prove(t *testing.T, i *Issuer, proof string, pairs ...string) response {
	t.Helper()
	form := url.Values{"client_id": {"editor"}, "resource": {resource}}
	for n := 0; n < len(pairs); n += 2 {
		form.Set(pairs[n], pairs[n+1])
	}
	return post(t, i.URL()+"/token", "application/x-www-form-urlencoded", form.Encode(), "DPoP", proof)
}

func redeemWith(t *testing.T, i *Issuer, p *prover, code string) response {
	t.Helper()
	return prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "authorization_code", "code", code, "redirect_uri",
		redirectURI, "code_verifier", verifier)
}

func TestTokensAreBoundToTheKeyOfTheProof(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	issued := redeemWith(t, i, p, newCode(t, i))
	if issued.Status != 200 || issued.Type != "DPoP" {
		t.Fatalf("issued %+v", issued)
	}
	if claims, err := verify(t, i, issued.Access); err != nil || claims.Confirmation == nil ||
		claims.Confirmation.Thumbprint != p.thumbprint {
		t.Errorf("claims %+v, %v", claims, err)
	}
	form := []string{"grant_type", "refresh_token", "refresh_token", issued.Refresh}
	other := newProver(t)
	if stolen := prove(t, i, other.proof(i.URL()+"/token"), form...); stolen.Error != "invalid_grant" {
		t.Errorf("refresh with another key: %+v", stolen)
	}
}

func TestBoundRefreshTokenNeedsItsKey(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	issued := redeemWith(t, i, p, newCode(t, i))
	renewed := prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "refresh_token", "refresh_token", issued.Refresh)
	if renewed.Status != 200 || renewed.Type != "DPoP" {
		t.Fatalf("refreshed %+v", renewed)
	}
	if claims, err := verify(t, i, renewed.Access); err != nil || claims.Confirmation == nil ||
		claims.Confirmation.Thumbprint != p.thumbprint {
		t.Errorf("claims %+v, %v", claims, err)
	}
	if without := refreshWith(t, i, renewed.Refresh); without.Error != "invalid_grant" {
		t.Errorf("refresh without a proof: %+v", without)
	}
	bearer := redeem(t, i, newCode(t, i))
	if bound := prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "refresh_token", "refresh_token",
		bearer.Refresh); bound.Error != "invalid_grant" {
		t.Errorf("the grant of a bearer token is bound later: %+v", bound)
	}
}

func TestInvalidProofsAreRejected(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	used := p.proof(i.URL() + "/token")
	if issued := prove(t, i, used, "grant_type", "authorization_code", "code", newCode(t, i), "redirect_uri",
		redirectURI, "code_verifier", verifier); issued.Status != 200 {
		t.Fatalf("issued %+v", issued)
	}
	for name, proof := range map[string]string{"used before": used,
		"another URL": p.proof("http://other.example/token"), "not a JWS": "x"} {
		code := newCode(t, i)
		if got := prove(t, i, proof, "grant_type", "authorization_code", "code", code, "redirect_uri", redirectURI,
			"code_verifier", verifier); got.Error != "invalid_dpop_proof" || got.Access != "" {
			t.Errorf("%s: %+v", name, got)
		}
		if issued := redeem(t, i, code); issued.Status != 200 {
			t.Errorf("%s: the code is invalid: %+v", name, issued)
		}
	}
}

func TestCodeIsBoundToDPoPJKT(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	code := func() string {
		return authorize(t, new(Browser), page(i, "dpop_jkt", p.thumbprint)).Get("code")
	}
	if got := redeem(t, i, code()); got.Error != "invalid_grant" {
		t.Errorf("without a proof: %+v", got)
	}
	if got := redeemWith(t, i, newProver(t), code()); got.Error != "invalid_grant" {
		t.Errorf("with another key: %+v", got)
	}
	if got := redeemWith(t, i, p, code()); got.Status != 200 {
		t.Errorf("with the right key: %+v", got)
	}
}
