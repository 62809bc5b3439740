package auth

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/jsonrpc"
)

// DPoP is how proofs of possession are dealt with (RFC 9449). Tokens that are bound to
// a key always need one with each request; the zero DPoP accepts bearer tokens beside
// them.
//
// Proofs that were used are remembered in this process, and not in a store: each request
// would wait for a write there, for the sake of somebody who has got hold of both the
// token and a request of the last minute. So where several replicas serve, a proof may be
// used once at each within MaxAge, and so it may once more when a process starts anew.
// With Nonces and without NonceKeys it may not: a nonce is then good only at the process
// that has issued it. It costs clients another round trip whenever they get to another
// replica, which a load balancer that keeps them at one spares them.
type DPoP struct {
	// Required refuses bearer tokens.
	Required bool
	// Nonces has proofs carry a nonce of ours that is at most five minutes old, so that
	// none can be made in advance.
	Nonces bool
	// NonceKeys authenticate nonces: at least 32 random bytes each, the same on all
	// replicas, the newest first, so that a nonce of one is good at the others. None: a
	// random one.
	NonceKeys [][]byte
	// MaxAge is how long a proof may be used for, and by how much clocks may differ.
	// 0: one minute.
	MaxAge time.Duration
}

const (
	proofAge   = time.Minute
	maxProofID = 256 // bytes
	nonceName  = "Dpop-Nonce"
)

// proof is what a DPoP header says.
type proof struct {
	id, method, target string
	tokenHash, nonce   string
	issued             time.Time
	thumbprint         string // of the key that has signed it
}

// readProof verifies the signature of a proof with the key that it carries (RFC 9449,
// section 4.3).
func readProof(headers []string) (*proof, error) {
	if len(headers) != 1 {
		return nil, invalid("one DPoP header is needed")
	}
	t, err := parseJWS(headers[0])
	if err != nil {
		return nil, invalid("the DPoP header is no signed JSON Web Token")
	}
	if !strings.EqualFold(t.typ, "dpop+jwt") {
		return nil, invalid("its type is not dpop+jwt")
	}
	key, thumbprint, ok := proofKey(t.jwk)
	if !ok || !fits(t.alg, key) {
		return nil, invalid("it carries no public key that fits its algorithm")
	}
	if !t.verify(key) {
		return nil, invalid("its signature does not verify")
	}
	p := &proof{thumbprint: thumbprint}
	ok = true
	for name, value := range jsonrpc.All(t.payload) {
		fine := true
		switch name {
		case "jti":
			p.id, fine = textOf(value)
		case "htm":
			p.method, fine = textOf(value)
		case "htu":
			p.target, fine = textOf(value)
		case "ath":
			p.tokenHash, fine = textOf(value)
		case "nonce":
			p.nonce, fine = textOf(value)
		case "iat":
			p.issued, fine = dateOf(value)
		}
		ok = ok && fine
	}
	if !ok || p.id == "" || len(p.id) > maxProofID {
		return nil, invalid("one of its claims is missing or malformed")
	}
	return p, nil
}

// proofKey reads a public key and its thumbprint (RFC 7638).
func proofKey(raw []byte) (key any, thumbprint string, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, "", false
	}
	if _, chain := jsonrpc.Get(raw, "x5c"); chain { // nobody needs one here, and reading it is dear
		return nil, "", false
	}
	var k jose.JSONWebKey
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() {
		return nil, "", false
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	return k.Key, base64.RawURLEncoding.EncodeToString(sum), err == nil
}

// check holds a proof against the request and the token that it came with. The targets
// are the URLs under which the request may have been sent.
func (p *proof) check(r *http.Request, token string, info *Info, targets []string, now time.Time, age time.Duration) error {
	sum := sha256.Sum256([]byte(token))
	hash := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case subtle.ConstantTimeCompare([]byte(p.tokenHash), []byte(hash)) != 1:
		return invalid("it is for another token")
	case subtle.ConstantTimeCompare([]byte(p.thumbprint), []byte(info.KeyThumbprint)) != 1:
		return invalid("it is signed with another key than the token is bound to")
	}
	return p.checkRequest(r, targets, now, age)
}

// checkRequest holds a proof against the request alone.
func (p *proof) checkRequest(r *http.Request, targets []string, now time.Time, age time.Duration) error {
	switch {
	case p.method != r.Method:
		return invalid("it is for another method")
	case !p.isFor(targets):
		return invalid("it is for another URL")
	case p.issued.Before(now.Add(-age)) || p.issued.After(now.Add(age)):
		return invalid("it is too old, or of the future: look at the clock")
	}
	return nil
}

// isFor compares URLs without query and fragment, as RFC 9449, section 4.3 asks for.
func (p *proof) isFor(targets []string) bool {
	target, _, _ := strings.Cut(p.target, "#")
	target, _, _ = strings.Cut(target, "?")
	canonical, err := canonicalURI(target)
	if err != nil {
		return false
	}
	for _, t := range targets {
		if t == canonical {
			return true
		}
	}
	return false
}
