package devissuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-jose/go-jose/v4"
)

// maxKeys is the maximum number of published keys, including the signing key.
const maxKeys = 4

type signingKey struct {
	public jose.JSONWebKey
	signer jose.Signer
}

// RotateKey replaces the signing key. The three previous keys remain published, so that
// tokens signed with them can be verified.
func (i *Issuer) RotateKey() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("devissuer: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: secret(), Algorithm: string(jose.ES256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		new(jose.SignerOptions).WithType("at+jwt")) // RFC 9068, section 2.1
	if err != nil {
		return fmt.Errorf("devissuer: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, &signingKey{public: key.Public(), signer: signer})
	if len(i.keys) > maxKeys {
		i.keys = i.keys[len(i.keys)-maxKeys:]
	}
	return nil
}

// sign returns claims as a JWT.
func (i *Issuer) sign(claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	signer := i.keys[len(i.keys)-1].signer
	i.mu.Unlock()
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// serveKeys serves the public keys (RFC 7517).
func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	var set jose.JSONWebKeySet
	i.mu.Lock()
	for _, key := range i.keys {
		set.Keys = append(set.Keys, key.public)
	}
	i.mu.Unlock()
	writeJSON(w, http.StatusOK, set)
}
