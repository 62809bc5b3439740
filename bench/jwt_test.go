package bench

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/must"
)

// BenchmarkJWT measures the verification of a JSON Web Token with a cached key. The baseline verifies only the
// signature.
func BenchmarkJWT(b *testing.B) {
	onCurve := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(b)
	modulus := must.Get(rsa.GenerateKey(rand.Reader, 2048))(b)
	b.Run("ES256", func(b *testing.B) {
		verify, token := issuedToken(b, jose.ES256, onCurve, onCurve.Public())
		digest, signature := signedBy(b, token)
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		compare(b, repeated(func() bool {
			return ecdsa.Verify(&onCurve.PublicKey, digest, r, s)
		}, b), repeated(verify, b))
	})
	b.Run("RS256", func(b *testing.B) {
		verify, token := issuedToken(b, jose.RS256, modulus, modulus.Public())
		digest, signature := signedBy(b, token)
		compare(b, repeated(func() bool {
			return rsa.VerifyPKCS1v15(&modulus.PublicKey, crypto.SHA256, digest, signature) == nil
		}, b), repeated(verify, b))
	})
}

// issuedToken returns a token of an issuer and a function that verifies it with the cached key of the issuer.
func issuedToken(b *testing.B, alg jose.SignatureAlgorithm, private, public any) (verify func() bool, token string) {
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	b.Cleanup(issuer.Close)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "1"}}})
	})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: private},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "1"))
	must.Do(b, err)
	now := time.Now()
	claims, _ := json.Marshal(map[string]any{
		"iss": issuer.URL, "sub": "0b2f6d1e-user", "client_id": "editor",
		"aud": []string{"https://mcp.example.com/mcp"}, "scope": "mcp:read mcp:write",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
		"email": "ada@example.com",
	})
	signed, err := signer.Sign(claims)
	must.Do(b, err)
	if token, err = signed.CompactSerialize(); err != nil {
		b.Fatal(err)
	}
	v := &jwt.Verifier{Issuers: []string{issuer.URL}, KeysURL: issuer.URL + "/keys"}
	must.Do(b, must.Err(v.Verify(b.Context(), token)))
	ctx := b.Context()
	return func() bool {
		_, err := v.Verify(ctx, token)
		return err == nil
	}, token
}

// signedBy returns the digest that a token signs, and the signature.
func signedBy(b *testing.B, token string) (digest, signature []byte) {
	end := strings.LastIndexByte(token, '.')
	sum := sha256.Sum256([]byte(token[:end]))
	parsed := must.Get(jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256}))(b)
	return sum[:], parsed.Signatures[0].Signature
}

func repeated(verify func() bool, b *testing.B) func(n int) {
	return func(n int) {
		for range n {
			must.That(b, verify(), "invalid signature")
		}
	}
}
