package auth

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// ProofChecker checks proofs of possession that come without an access token: those of
// clients that ask an authorization server for tokens bound to a key (RFC 9449, section
// 5). A [ProtectedResource] checks the others. The zero value is usable; it must not be copied
// after first use, and is safe for concurrent use.
type ProofChecker struct {
	// MaxAge is how long a proof may be used for, and by how much clocks may differ. 0: one
	// minute.
	MaxAge time.Duration
	Now    func() time.Time // nil: time.Now

	once    sync.Once
	replays replays
}

// Check verifies the DPoP header of a request to target, which is the endpoint's URL as
// clients know it. It returns the thumbprint of the key (RFC 7638), for the token's
// claim cnf. A proof is good for one request. What is wrong with it is an
// *[InvalidTokenError]; another error means that no more proofs can be remembered at
// present.
func (c *ProofChecker) Check(r *http.Request, target string) (thumbprint string, err error) {
	age, now := c.MaxAge, time.Now
	if age <= 0 {
		age = proofAge
	}
	if c.Now != nil {
		now = c.Now
	}
	c.once.Do(func() { c.replays.window = 2 * age })
	p, err := readProof(r.Header["Dpop"])
	if err != nil {
		return "", err
	}
	canonical, err := canonicalURI(target)
	if err != nil {
		return "", err
	}
	at := now()
	if err := p.checkRequest(r, []string{canonical}, at, age); err != nil {
		return "", err
	}
	switch err := c.replays.use(p.thumbprint, p.id, at); err {
	case nil:
		return p.thumbprint, nil
	case errReplayed:
		return "", invalid("it was used before")
	default:
		return "", err
	}
}

// ProofAlgorithms returns the algorithms that proofs may be signed with, for an
// authorization server's dpop_signing_alg_values_supported.
func ProofAlgorithms() []string { return slices.Clone(algorithms) }
