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
	"time"

	"github.com/go-jose/go-jose/v4"
)

// SigningKey signs what proves who a client is.
type SigningKey struct {
	// Key is an *ecdsa.PrivateKey, *rsa.PrivateKey or ed25519.PrivateKey.
	Key crypto.Signer
	// Algorithm is the JWS algorithm, such as "ES256"; empty: what fits Key.
	Algorithm string
	// ID names the key in the client's key set ("kid"); may be empty.
	ID string
}

// ParseSigningKey reads a private key in PEM: PKCS #8, PKCS #1 or SEC 1.
func ParseSigningKey(text []byte) (*SigningKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("signing key: there is no PEM block")
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
	return nil, fmt.Errorf("signing key: a PEM block %.32q holds no private key that can sign", block.Type)
}

// algorithm is the one that fits the key, unless one is given.
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

// sign makes a JWT of claims.
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

// assertionLifetime is short: an assertion is used at once, and once.
const assertionLifetime = time.Minute

// assertion says who the client is (RFC 7523, section 3).
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
