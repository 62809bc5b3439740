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
	"github.com/parley-mcp/parley/mcp"
)

// holder has a token and a key, be it the one that the token is bound to or a thief's own.
type holder struct {
	t     *testing.T
	w     *realm
	token string
	key   *jose.JSONWebKey
	clock *atomic.Int64 // by how much the server's is ahead
	nonce string        // that the server has sent last
}

// holderOf is the person's program, from what is in its store.
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
		var kept struct {
			Access string          `json:"access_token"`
			Key    jose.JSONWebKey `json:"proof_key"`
		}
		if err := json.Unmarshal(raw, &kept); err != nil || kept.Key.Key == nil {
			t.Fatalf("the token is bound to no key: %v", err)
		}
		return &holder{t: t, w: w, token: kept.Access, key: &kept.Key, clock: clock}
	}
	t.Fatal("no token is kept")
	return nil
}

// proof is for a POST to the server, but for some claims.
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

// post sends something to the server. It returns the error of the challenge, empty if
// the request was authorized.
func (h *holder) post(authorization, proof string) string {
	h.t.Helper()
	header := []string{"Authorization", authorization}
	if proof != "" {
		header = append(header, "DPoP", proof)
	}
	res := rawHTTP(h.t, http.MethodPost, h.w.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header...)
	rawText(h.t, res)
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
	return fmt.Sprintf("no challenge that a client could answer: %v", res.Header)
}

// R8: tokens that are bound to a key, from the login to the last request, and nothing
// that was overheard is of any use.
func TestBoundTokensInEveryRevision(t *testing.T) {
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
		wantWho(t, c, "change", "ada") // the next token is bound to a key, too
		wantWho(t, c, "look", "ada")
		if n := ada.asked.Load(); n != 2 {
			t.Errorf("ada was asked %d times", n)
		}
		if bare, err := w.issuer.Token("ada", w.url, "mcp"); err != nil || (&holder{t: t, w: w}).post("Bearer "+bare, "") != "invalid_token" {
			t.Errorf("a token that is bound to nothing is accepted: %v", err)
		}

		h := holderOf(t, w, ada, &clock)
		own := "DPoP " + h.token
		if code := h.post(own, h.proof(nil)); code != "use_dpop_nonce" || h.nonce == "" {
			t.Fatalf("without a nonce: %q", code)
		}
		once := h.proof(nil)
		if code := h.post(own, once); code != "" {
			t.Fatalf("a proof like the client's is refused: %s", code)
		}
		thief := *h
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		thief.key = &jose.JSONWebKey{Key: private}
		const no = "invalid_dpop_proof"
		for name, refused := range map[string]struct{ authorization, proof, code string }{
			"a proof that was used before":     {own, once, no},
			"a stolen token as it is":          {"Bearer " + h.token, "", "invalid_token"},
			"a stolen token without a proof":   {own, "", no},
			"a stolen token with a thief's":    {own, thief.proof(nil), no},
			"a proof for another address":      {own, h.proof(map[string]any{"htu": "https://other.example/mcp"}), no},
			"a proof for another path":         {own, h.proof(map[string]any{"htu": w.url + "/x"}), no},
			"a proof for another method":       {own, h.proof(map[string]any{"htm": http.MethodGet}), no},
			"a proof for another token":        {own, h.proof(map[string]any{"ath": "x"}), no},
			"a proof that was made long ago":   {own, h.proof(map[string]any{"iat": time.Now().Add(-time.Hour).Unix()}), no},
			"a nonce that was made up":         {own, h.proof(map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}), "use_dpop_nonce"},
			"a stolen proof for another token": {"DPoP " + w.token("ada"), h.proof(nil), "invalid_token"},
		} {
			if code := h.post(refused.authorization, refused.proof); code != refused.code {
				t.Errorf("%s: %q, want %q", name, code, refused.code)
			}
		}
		clock.Store(int64(6 * time.Minute))
		if code := h.post(own, h.proof(nil)); code != "use_dpop_nonce" {
			t.Errorf("an old nonce: %q", code)
		}
		if code := h.post(own, h.proof(nil)); code != "" {
			t.Errorf("the nonce that has come in its place: %q", code)
		}
		clock.Store(0)
		wantWho(t, c, "look", "ada")
	}, bound)
}
