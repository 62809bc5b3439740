package devissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// prover is a client with a key.
type prover struct {
	t          *testing.T
	signer     jose.Signer
	thumbprint string
}

func newProver(t *testing.T) *prover {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := (&jose.JSONWebKey{Key: key.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &prover{t, signer, base64.RawURLEncoding.EncodeToString(sum)}
}

func (p *prover) proof(target string) string {
	p.t.Helper()
	claims, err := json.Marshal(map[string]any{"jti": rand.Text(), "htm": "POST", "htu": target, "iat": time.Now().Unix()})
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := p.signer.Sign(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
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
	return prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "authorization_code", "code", code, "redirect_uri", redirectURI, "code_verifier", verifier)
}

func TestTokensAreBoundToTheKeyOfTheProof(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	issued := redeemWith(t, i, p, newCode(t, i))
	if issued.Status != 200 || issued.Type != "DPoP" {
		t.Fatalf("issued %+v", issued)
	}
	if claims, err := verify(t, i, issued.Access); err != nil || claims.Confirmation == nil || claims.Confirmation.Thumbprint != p.thumbprint {
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
	if claims, err := verify(t, i, renewed.Access); err != nil || claims.Confirmation == nil || claims.Confirmation.Thumbprint != p.thumbprint {
		t.Errorf("claims %+v, %v", claims, err)
	}
	if without := refreshWith(t, i, renewed.Refresh); without.Error != "invalid_grant" {
		t.Errorf("refresh without a proof: %+v", without)
	}
	bearer := redeem(t, i, newCode(t, i))
	if bound := prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "refresh_token", "refresh_token", bearer.Refresh); bound.Error != "invalid_grant" {
		t.Errorf("the grant of a bearer token is bound later: %+v", bound)
	}
}

func TestInvalidProofsAreRejected(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	used := p.proof(i.URL() + "/token")
	if issued := prove(t, i, used, "grant_type", "authorization_code", "code", newCode(t, i), "redirect_uri", redirectURI, "code_verifier", verifier); issued.Status != 200 {
		t.Fatalf("issued %+v", issued)
	}
	for name, proof := range map[string]string{"used before": used, "another URL": p.proof("http://other.example/token"), "not a JWS": "x"} {
		code := newCode(t, i)
		if got := prove(t, i, proof, "grant_type", "authorization_code", "code", code, "redirect_uri", redirectURI, "code_verifier", verifier); got.Error != "invalid_dpop_proof" || got.Access != "" {
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
