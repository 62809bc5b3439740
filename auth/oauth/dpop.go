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

// proofKey is the private key that a token is bound to (RFC 9449).
type proofKey struct{ key SigningKey }

func newProofKey() (*proofKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &proofKey{SigningKey{Key: key}}, nil
}

// proof returns a proof for a request. Token is the access token of the request; empty
// at the token endpoint (RFC 9449, section 4.2).
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

// MarshalJSON encodes the private key as a JWK, for the store.
func (p *proofKey) MarshalJSON() ([]byte, error) {
	return json.Marshal(jose.JSONWebKey{Key: p.key.Key})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (p *proofKey) UnmarshalJSON(data []byte) error {
	var k jose.JSONWebKey
	if err := k.UnmarshalJSON(data); err != nil {
		return errors.New("cannot decode the stored DPoP key")
	}
	key, ok := k.Key.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("the stored DPoP key must be an ECDSA private key")
	}
	p.key.Key = key
	return nil
}

// validNonce reports whether s has the syntax of a nonce (RFC 9449, section 8.1).
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
