package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/internal/digest"
)

// SigningKey is a private key that authenticates a client.
type SigningKey struct {
	// Key is an *ecdsa.PrivateKey, *rsa.PrivateKey or ed25519.PrivateKey.
	Key crypto.Signer
	// Algorithm is the JWS algorithm, such as "ES256"; empty: the default for Key.
	Algorithm string
	// ID is the identifier of the key in the client's key set ("kid"); may be empty.
	ID string
}

// ParseSigningKey parses a private key in PEM format: PKCS #8, PKCS #1 or SEC 1.
func ParseSigningKey(text []byte) (*SigningKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("signing key: the file must contain a PEM block")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return &SigningKey{Key: signer}, nil
		}
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return &SigningKey{Key: key}, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return &SigningKey{Key: key}, nil
	}
	return nil, fmt.Errorf("signing key: the PEM block %.32q must be a private key for signatures", block.Type)
}

// algorithm returns k.Algorithm, or the default for the key.
func (k *SigningKey) algorithm() jose.SignatureAlgorithm {
	if k.Algorithm != "" {
		return jose.SignatureAlgorithm(k.Algorithm)
	}
	switch key := k.Key.(type) {
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P384():
			return jose.ES384
		case elliptic.P521():
			return jose.ES512
		}
		return jose.ES256
	case *rsa.PrivateKey:
		return jose.RS256
	}
	return jose.EdDSA
}

// sign returns a JWT with claims.
func (k *SigningKey) sign(claims map[string]any, options *jose.SignerOptions) (string, error) {
	if k.ID != "" && !options.EmbedJWK {
		options = options.WithHeader("kid", k.ID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm(), Key: k.Key}, options)
	if err != nil {
		return "", fmt.Errorf("signing key: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing key: %w", err)
	}
	return signed.CompactSerialize()
}

// assertionLifetime is short because an assertion is used immediately.
const assertionLifetime = time.Minute

// assertion returns a JWT that authenticates a client (RFC 7523, section 3).
func (k *SigningKey) assertion(clientID, audience string) (string, error) {
	now := time.Now()
	return k.sign(map[string]any{
		"iss": clientID,
		"sub": clientID,
		"aud": audience,
		"jti": rand.Text(),
		"iat": now.Unix(),
		"exp": now.Add(assertionLifetime).Unix(),
	}, (&jose.SignerOptions{}).WithType("JWT"))
}

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

// proof returns a proof for a request. token is the access token of the request; empty
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
