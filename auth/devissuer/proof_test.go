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

// prover is a client's key, with which it proves that it is still the same.
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
func prove(t *testing.T, i *Issuer, proof string, pairs ...string) answer {
	t.Helper()
	form := url.Values{"client_id": {"editor"}, "resource": {resource}}
	for n := 0; n < len(pairs); n += 2 {
		form.Set(pairs[n], pairs[n+1])
	}
	return post(t, i.URL()+"/token", "application/x-www-form-urlencoded", form.Encode(), "DPoP", proof)
}

func redeemWith(t *testing.T, i *Issuer, p *prover, code string) answer {
	t.Helper()
	return prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "authorization_code", "code", code, "redirect_uri", callback, "code_verifier", verifier)
}

func TestTokensAreBoundToTheKeyThatAClientProves(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	given := redeemWith(t, i, p, granted(t, i))
	if given.Status != 200 || given.Type != "DPoP" {
		t.Fatalf("given %+v", given)
	}
	if said, err := verify(t, i, given.Access); err != nil || said.Confirmation == nil || said.Confirmation.Thumbprint != p.thumbprint {
		t.Errorf("the token says %+v, %v", said, err)
	}
	renewal := []string{"grant_type", "refresh_token", "refresh_token", given.Refresh}
	other := newProver(t)
	if stolen := prove(t, i, other.proof(i.URL()+"/token"), renewal...); stolen.Error != "invalid_grant" {
		t.Errorf("renewed with another key: %+v", stolen)
	}
}

func TestABoundRefreshTokenIsRenewedWithItsKeyOnly(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	given := redeemWith(t, i, p, granted(t, i))
	renewed := prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "refresh_token", "refresh_token", given.Refresh)
	if renewed.Status != 200 || renewed.Type != "DPoP" {
		t.Fatalf("renewed %+v", renewed)
	}
	if said, err := verify(t, i, renewed.Access); err != nil || said.Confirmation == nil || said.Confirmation.Thumbprint != p.thumbprint {
		t.Errorf("the token says %+v, %v", said, err)
	}
	if without := renew(t, i, renewed.Refresh); without.Error != "invalid_grant" {
		t.Errorf("renewed without a proof: %+v", without)
	}
	bearer := redeem(t, i, granted(t, i))
	if bound := prove(t, i, p.proof(i.URL()+"/token"), "grant_type", "refresh_token", "refresh_token", bearer.Refresh); bound.Error != "invalid_grant" {
		t.Errorf("a bearer token's grant is bound later: %+v", bound)
	}
}

func TestABadProofGetsNoToken(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	p := newProver(t)
	used := p.proof(i.URL() + "/token")
	if given := prove(t, i, used, "grant_type", "authorization_code", "code", granted(t, i), "redirect_uri", callback, "code_verifier", verifier); given.Status != 200 {
		t.Fatalf("given %+v", given)
	}
	for name, proof := range map[string]string{"used before": used, "for elsewhere": p.proof("http://other.example/token"), "none at all": "x"} {
		code := granted(t, i)
		if got := prove(t, i, proof, "grant_type", "authorization_code", "code", code, "redirect_uri", callback, "code_verifier", verifier); got.Error != "invalid_dpop_proof" || got.Access != "" {
			t.Errorf("%s: %+v", name, got)
		}
		if given := redeem(t, i, code); given.Status != 200 {
			t.Errorf("%s: the code is spent: %+v", name, given)
		}
	}
}

func TestACodeIsForTheKeyThatTheRequestHasNamed(t *testing.T) {
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
		t.Errorf("with its key: %+v", got)
	}
}
