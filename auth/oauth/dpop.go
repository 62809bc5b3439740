package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/internal/digest"
)

const (
	headerDPoP      = "Dpop"
	headerDPoPNonce = "Dpop-Nonce"
	errDPoPNonce    = "use_dpop_nonce"
)

// proofKey binds tokens to whoever has it (RFC 9449).
type proofKey struct{ key SigningKey }

func newProofKey() (*proofKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &proofKey{SigningKey{Key: key}}, nil
}

// proof is for one request, and for one more token if there is one with it (RFC 9449,
// section 4.2).
func (p *proofKey) proof(method string, u *url.URL, nonce, token string) (string, error) {
	claims := map[string]any{
		"jti": rand.Text(),
		"htm": method,
		"htu": (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String(),
		"iat": time.Now().Unix(),
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if token != "" {
		claims["ath"] = digest.Of(token)
	}
	return p.key.sign(claims, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
}

// MarshalJSON writes the private key as a JWK, for the store.
func (p *proofKey) MarshalJSON() ([]byte, error) {
	return json.Marshal(jose.JSONWebKey{Key: p.key.Key})
}

// UnmarshalJSON undoes MarshalJSON.
func (p *proofKey) UnmarshalJSON(data []byte) error {
	var k jose.JSONWebKey
	if err := k.UnmarshalJSON(data); err != nil {
		return errors.New("the stored key for proofs of possession is damaged")
	}
	key, ok := k.Key.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("the stored key for proofs of possession is of another kind")
	}
	p.key.Key = key
	return nil
}

// validNonce reports whether a nonce may go into a proof (RFC 9449, section 8.1).
func validNonce(s string) bool {
	if s == "" || len(s) > 1024 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7E || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
