package jwt

import (
	"crypto"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/jsonrpc"
)

// proof is a DPoP proof whose signature has been verified.
type proof struct {
	id, method, url  string
	tokenHash, nonce string
	issued           time.Time
	thumbprint       string // of the key that signed it
}

const maxProofID = 256 // bytes

// readProof reads the DPoP header and verifies the signature with the key in it (RFC
// 9449, section 4.3).
func readProof(headers []string) (*proof, error) {
	if len(headers) != 1 {
		return nil, invalidProof("the request must have one DPoP header")
	}
	t, err := parseJWS(headers[0])
	if err != nil {
		return nil, invalidProof("the DPoP header must be a signed JSON Web Token")
	}
	if !strings.EqualFold(t.typ, "dpop+jwt") {
		return nil, invalidProof("its type must be dpop+jwt")
	}
	key, thumbprint, ok := proofKey(t.jwk)
	if !ok || !fits(t.alg, key) {
		return nil, invalidProof("it must contain a public key that fits its algorithm")
	}
	if !t.verify(key) {
		return nil, invalidProof("its signature is invalid")
	}
	p := &proof{thumbprint: thumbprint}
	ok = true
	for name, value := range jsonrpc.All(t.payload) {
		valid := true
		switch name {
		case "jti":
			p.id, valid = issuer.Text(value)
		case "htm":
			p.method, valid = issuer.Text(value)
		case "htu":
			p.url, valid = issuer.Text(value)
		case "ath":
			p.tokenHash, valid = issuer.Text(value)
		case "nonce":
			p.nonce, valid = issuer.Text(value)
		case "iat":
			p.issued, valid = issuer.Date(value)
		}
		ok = ok && valid
	}
	if !ok || p.id == "" || len(p.id) > maxProofID {
		return nil, invalidProof("a claim is missing or malformed")
	}
	return p, nil
}

// Error codes of challenges and token responses (RFC 9449, sections 5, 7.1 and 9).
const (
	codeInvalidProof = "invalid_dpop_proof"
	codeUseNonce     = "use_dpop_nonce"
)

func invalidProof(reason string) error {
	return &auth.InvalidTokenError{Reason: reason, Code: codeInvalidProof}
}

// proofKey reads a public key and computes its thumbprint (RFC 7638).
func proofKey(raw []byte) (key any, thumbprint string, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, "", false
	}
	if _, chain := jsonrpc.Get(raw, "x5c"); chain { // not needed, and expensive to parse
		return nil, "", false
	}
	var k jose.JSONWebKey
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() {
		return nil, "", false
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	return k.Key, base64.RawURLEncoding.EncodeToString(sum), err == nil
}

// checkToken checks that the proof is for an access token, and made by the key that the
// token is bound to.
func (p *proof) checkToken(token, thumbprint string) error {
	switch {
	case subtle.ConstantTimeCompare([]byte(p.tokenHash), []byte(digest.Of(token))) != 1:
		return invalidProof("it is for another token")
	case subtle.ConstantTimeCompare([]byte(p.thumbprint), []byte(thumbprint)) != 1:
		return invalidProof("it is signed with another key than the token is bound to")
	}
	return nil
}

// checkRequest checks that the proof is for the method of r and one of urls, which are
// canonical and have no query, and that it is not older than maxAge.
func (p *proof) checkRequest(r *http.Request, urls []string, now time.Time, maxAge time.Duration) error {
	switch {
	case p.method != r.Method:
		return invalidProof("it is for another method")
	case !p.isFor(urls):
		return invalidProof("it is for another URL")
	case p.issued.Before(now.Add(-maxAge)) || p.issued.After(now.Add(maxAge)):
		return invalidProof("its time of issue is too far in the past or in the future: check the clock")
	}
	return nil
}

// isFor compares URLs without query and fragment (RFC 9449, section 4.3).
func (p *proof) isFor(urls []string) bool {
	target, _, _ := strings.Cut(p.url, "#")
	target, _, _ = strings.Cut(target, "?")
	canonical, err := httpurl.Canonical(target)
	return err == nil && slices.Contains(urls, canonical)
}
