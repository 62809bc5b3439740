package mcptest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// holder makes requests with a token and a key, which may not be the key that the token is bound to.
type holder struct {
	t     *testing.T
	w     *realm
	token string
	key   *jose.JSONWebKey
	clock *atomic.Int64 // the time that the server's clock is ahead
	nonce string        // the last nonce from the server
}

// holderOf returns a holder with the token and key from a person's store.
func holderOf(t *testing.T, w *realm, p *person, clock *atomic.Int64) *holder {
	t.Helper()
	keys, err := p.store.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		raw, err := p.store.Load(t.Context(), key)
		if err != nil || !strings.HasPrefix(key, "token ") {
			continue
		}
		var stored struct {
			Access string          `json:"access_token"`
			Key    jose.JSONWebKey `json:"proof_key"`
		}
		if err := json.Unmarshal(raw, &stored); err != nil || stored.Key.Key == nil {
			t.Fatalf("the token is not bound to a key: %v", err)
		}
		return &holder{t: t, w: w, token: stored.Access, key: &stored.Key, clock: clock}
	}
	t.Fatal("the store has no token")
	return nil
}

// proof returns a proof for a POST to the server, with some claims changed.
func (h *holder) proof(changes map[string]any) string {
	h.t.Helper()
	sum := sha256.Sum256([]byte(h.token))
	claims := map[string]any{
		"jti": rand.Text(), "htm": http.MethodPost, "htu": h.w.url, "nonce": h.nonce,
		"iat": time.Now().Add(time.Duration(h.clock.Load())).Unix(), "ath": base64.RawURLEncoding.EncodeToString(sum[:]),
	}
	for name, value := range changes {
		claims[name] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: h.key.Key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		h.t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		h.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		h.t.Fatal(err)
	}
	proof, err := signed.CompactSerialize()
	if err != nil {
		h.t.Fatal(err)
	}
	return proof
}

// post sends a request to the server. It returns the error code of the challenge, or ""
// if the request is authorized.
func (h *holder) post(authorization, proof string) string {
	h.t.Helper()
	header := []string{"Authorization", authorization}
	if proof != "" {
		header = append(header, "DPoP", proof)
	}
	res := wiretest.Do(h.t, http.MethodPost, h.w.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header...)
	wiretest.Text(h.t, res)
	if nonce := res.Header.Get("DPoP-Nonce"); nonce != "" {
		h.nonce = nonce
	}
	if res.StatusCode != http.StatusUnauthorized {
		return ""
	}
	for _, challenge := range res.Header.Values("WWW-Authenticate") {
		if _, code, ok := strings.Cut(challenge, `error="`); ok && strings.HasPrefix(challenge, "DPoP ") {
			code, _, _ = strings.Cut(code, `"`)
			return code
		}
	}
	return fmt.Sprintf("no usable challenge: %v", res.Header)
}

// Rule R8: tokens are bound to a key. A stolen token or proof cannot be used.
func TestDPoPTokensInEveryRevision(t *testing.T) {
	var clock atomic.Int64
	bound := func(c *realmConfig) {
		clock.Store(0)
		c.issuer.AccessTokenLifetime = time.Hour
		c.resource.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
		c.resource.DPoP, c.resource.RequireDPoP = &jwt.ProofVerifier{Nonces: true, Now: c.resource.Now}, true
	}
	guardedEverywhere(t, guarded, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{browser: devissuer.Browser{User: "ada"}}
		c := w.mustDial(t, r, ada.program())
		wantWho(t, c, "look", "ada")
		wantWho(t, c, "change", "ada") // the token of the step-up is bound to a key, too
		wantWho(t, c, "look", "ada")
		if n := ada.asked.Load(); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
		if bare, err := w.issuer.Token("ada", w.url, "mcp"); err != nil || (&holder{t: t, w: w}).post("Bearer "+bare, "") != "invalid_token" {
			t.Errorf("a token without a key is accepted: %v", err)
		}

		h := holderOf(t, w, ada, &clock)
		own := "DPoP " + h.token
		if code := h.post(own, h.proof(nil)); code != "use_dpop_nonce" || h.nonce == "" {
			t.Fatalf("without a nonce: %q", code)
		}
		once := h.proof(nil)
		if code := h.post(own, once); code != "" {
			t.Fatalf("a valid proof is rejected: %s", code)
		}
		thief := *h
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		thief.key = &jose.JSONWebKey{Key: private}
		const no = "invalid_dpop_proof"
		for name, rejected := range map[string]struct{ authorization, proof, code string }{
			"a proof that was used before":     {own, once, no},
			"a stolen token as bearer token":   {"Bearer " + h.token, "", "invalid_token"},
			"a stolen token without a proof":   {own, "", no},
			"a stolen token with another key":  {own, thief.proof(nil), no},
			"a proof for another host":         {own, h.proof(map[string]any{"htu": "https://other.example/mcp"}), no},
			"a proof for another path":         {own, h.proof(map[string]any{"htu": w.url + "/x"}), no},
			"a proof for another method":       {own, h.proof(map[string]any{"htm": http.MethodGet}), no},
			"a proof for another token":        {own, h.proof(map[string]any{"ath": "x"}), no},
			"a proof that was made long ago":   {own, h.proof(map[string]any{"iat": time.Now().Add(-time.Hour).Unix()}), no},
			"an invalid nonce":                 {own, h.proof(map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}), "use_dpop_nonce"},
			"a stolen proof for another token": {"DPoP " + w.token("ada"), h.proof(nil), "invalid_token"},
		} {
			if code := h.post(rejected.authorization, rejected.proof); code != rejected.code {
				t.Errorf("%s: %q, want %q", name, code, rejected.code)
			}
		}
		clock.Store(int64(6 * time.Minute))
		if code := h.post(own, h.proof(nil)); code != "use_dpop_nonce" {
			t.Errorf("an old nonce: %q", code)
		}
		if code := h.post(own, h.proof(nil)); code != "" {
			t.Errorf("the new nonce: %q", code)
		}
		clock.Store(0)
		wantWho(t, c, "look", "ada")
	}, bound)
}
