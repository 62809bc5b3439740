package jwt

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // registers the hashes
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
)

// jws is a signed token in compact serialization (RFC 7515, section 7.1) whose signature
// has not been verified. The header parameters that supply a key (jku, x5u, x5c) are
// ignored.
type jws struct {
	alg, kid, typ string
	jwk           []byte // JSON; nil if absent
	payload       []byte // a JSON object without duplicate keys
	signed        string // the input of the signature
	signature     []byte
}

var errNotJWS = errors.New("not a signed JSON Web Token")

const maxKeyID = 512 // bytes

// parseJWS parses a token. It rejects what two parsers could read differently: duplicate
// keys, padding bits, and line breaks in base64.
func parseJWS(token string) (*jws, error) {
	if len(token) > maxToken {
		return nil, errNotJWS
	}
	head, rest, _ := strings.Cut(token, ".")
	body, signature, ok := strings.Cut(rest, ".")
	if !ok {
		return nil, errNotJWS
	}
	t := &jws{signed: token[:len(head)+1+len(body)]}
	header, ok := decodeObject(head)
	if !ok {
		return nil, errNotJWS
	}
	if t.payload, ok = decodeObject(body); !ok {
		return nil, errNotJWS
	}
	if t.signature, ok = decodeBase64(signature); !ok {
		return nil, errNotJWS
	}
	for name, value := range jsonrpc.All(header) {
		text := jsonrpc.Unquote(value)
		switch name {
		case "alg":
			t.alg = text
		case "kid":
			if value[0] != '"' || len(text) > maxKeyID {
				return nil, errNotJWS
			}
			t.kid = text
		case "typ":
			t.typ = text
		case "jwk":
			t.jwk = value
		case "crit", "b64": // critical extensions must be understood, and none is supported
			return nil, errNotJWS
		}
	}
	return t, nil
}

// isType reports whether the token has a media type. Its header may omit
// "application/" (RFC 7515, section 4.1.9).
func (t *jws) isType(want string) bool {
	typ := t.typ
	if prefix := "application/"; len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		typ = typ[len(prefix):]
	}
	return strings.EqualFold(typ, want)
}

// decodeObject decodes a JSON object. White space may surround it (RFC 7519, section 7.1).
func decodeObject(text string) ([]byte, bool) {
	data, ok := decodeBase64(text)
	data = bytes.Trim(data, " \t\r\n")
	return data, ok && len(data) > 0 && data[0] == '{' && jsonrpc.Check(data, jsonrpc.Limits{}) == nil
}

func decodeBase64(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") { // DecodeString would skip them
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return data, err == nil
}

// algorithms lists the accepted signature algorithms. All are asymmetric, so that a
// party that can verify a token cannot sign one (RFC 8725, section 3).
var algorithms = []string{"ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}

// supported reports whether a token may be signed with alg.
func supported(alg string) bool { return alg == "Ed25519" || slices.Contains(algorithms, alg) }

// Sizes of RSA keys in bits. Verification with a larger key is too expensive.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// fits reports whether alg is an algorithm for key.
func fits(alg string, key any) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		switch alg {
		case "ES256":
			return key.Curve == elliptic.P256()
		case "ES384":
			return key.Curve == elliptic.P384()
		case "ES512":
			return key.Curve == elliptic.P521()
		}
	case ed25519.PublicKey:
		return alg == "EdDSA" || alg == "Ed25519" // RFC 9864, section 2.2
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		return len(alg) == 5 && (alg[:2] == "RS" || alg[:2] == "PS") && hashOf(alg) != 0 && bits >= minRSABits &&
			bits <= maxRSABits
	}
	return false
}

func hashOf(alg string) crypto.Hash {
	switch alg[2:] {
	case "256":
		return crypto.SHA256
	case "384":
		return crypto.SHA384
	case "512":
		return crypto.SHA512
	}
	return 0
}

// verify verifies the signature with key, which must fit t.alg.
func (t *jws) verify(key any) bool {
	if k, ok := key.(ed25519.PublicKey); ok {
		return ed25519.Verify(k, []byte(t.signed), t.signature)
	}
	hash := hashOf(t.alg)
	h := hash.New()
	h.Write([]byte(t.signed))
	digest := h.Sum(nil)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		if len(t.signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:])
		return ecdsa.Verify(k, digest, r, s)
	case *rsa.PublicKey:
		if t.alg[0] == 'R' {
			return rsa.VerifyPKCS1v15(k, hash, digest, t.signature) == nil
		}
		return rsa.VerifyPSS(k, hash, digest, t.signature,
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	return false
}
