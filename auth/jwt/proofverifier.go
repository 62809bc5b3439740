package jwt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/store"
)

// ProofVerifier verifies DPoP proofs (RFC 9449), for resource servers and for
// authorization servers. The zero value is usable. Set the fields before the first use.
// A ProofVerifier must not be copied after that. It is safe for concurrent use.
//
// It accepts each proof once. Without KV it remembers proofs in memory only, so with several
// replicas, and after a restart, a proof can be used once at each process within MaxAge. Set KV to
// prevent that, or set Nonces and leave NonceKeys empty: a nonce is then valid only at the process
// that issued it, so that clients need an additional round trip when they reach another replica.
type ProofVerifier struct {
	// Nonces requires proofs to contain a nonce that this server issued within the last
	// five minutes, so that clients cannot make proofs in advance.
	Nonces bool
	// NonceKeys authenticate nonces. Replicas with the same keys accept each other's
	// nonces. Each key must have at least 32 random bytes. The first key signs, all keys
	// verify. Empty: a random key.
	NonceKeys [][]byte
	// MaxAge is how long a proof is valid, and how much clocks may differ; 0 means one
	// minute.
	MaxAge time.Duration
	// KV remembers the proofs for all replicas that share it, with one write for each request. While
	// it fails, proofs are rejected with [auth.ErrUnavailable]. Nil: each process remembers its own.
	KV  store.KV
	Now func() time.Time // returns the current time; nil: time.Now

	once    sync.Once
	err     error
	nonces  *nonces // nil: proofs need no nonce
	replays replays
}

var _ auth.ProofVerifier = (*ProofVerifier)(nil)

const defaultMaxAge = time.Minute

// Check returns an error if a field has an invalid value.
func (v *ProofVerifier) Check() error {
	v.once.Do(func() { v.err = v.prepare() })
	return v.err
}

func (v *ProofVerifier) prepare() error {
	v.replays.window = 2 * v.maxAge()
	if !v.Nonces {
		return nil
	}
	for _, key := range v.NonceKeys {
		if len(key) < 32 {
			return errors.New("NonceKeys: each key must have at least 32 random bytes")
		}
	}
	v.nonces = newNonces(v.NonceKeys)
	return nil
}

func (v *ProofVerifier) now() time.Time {
	if v.Now != nil {
		return v.Now()
	}
	return time.Now()
}

func (v *ProofVerifier) maxAge() time.Duration {
	if v.MaxAge > 0 {
		return v.MaxAge
	}
	return defaultMaxAge
}

// Algorithms returns the JWS algorithms of proofs that v accepts, for the metadata
// member dpop_signing_alg_values_supported.
func (v *ProofVerifier) Algorithms() []string { return slices.Clone(algorithms) }

// VerifyProof implements [auth.ProofVerifier]. Urls must be canonical and have no query.
func (v *ProofVerifier) VerifyProof(r *http.Request, urls []string, token, thumbprint string) (nonce string, err error) {
	if err := v.Check(); err != nil {
		return "", err
	}
	p, err := readProof(r.Header["Dpop"])
	if err != nil {
		return "", err
	}
	if err := p.checkToken(token, thumbprint); err != nil {
		return "", err
	}
	now := v.now()
	if err := p.checkRequest(r, urls, now, v.maxAge()); err != nil {
		return "", err
	}
	if v.nonces != nil {
		age, ok := v.nonces.age(p.nonce, now)
		if !ok || age > v.nonces.life/2 {
			nonce = v.nonces.issue(now)
		}
		if !ok {
			return nonce, &auth.InvalidTokenError{Reason: "it must contain the nonce of the DPoP-Nonce header", Code: codeUseNonce}
		}
	}
	return nonce, v.use(r.Context(), p, now)
}

// use records a proof. It returns an error if the proof was used before, or cannot be recorded.
func (v *ProofVerifier) use(ctx context.Context, p *proof, now time.Time) error {
	if err := v.replays.use(p.thumbprint, p.id, now); err != nil || v.KV == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := "dpop/" + digest.Join([]byte(p.thumbprint), []byte(p.id))
	_, err := v.KV.Put(ctx, key, []byte{1}, store.PutOptions{TTL: v.replays.window, IfAbsent: true})
	switch {
	case errors.Is(err, store.ErrConflict):
		return invalidProof("it was used before")
	case err != nil:
		return fmt.Errorf("%w: cannot record the DPoP proof: %w", auth.ErrUnavailable, err)
	}
	return nil
}

// storeTimeout is the time-out of each operation of the KV.
const storeTimeout = 5 * time.Second

// VerifyTokenRequest verifies the DPoP header of a request to the token endpoint of an
// authorization server, whose public URL is endpoint (RFC 9449, section 5). The proof
// contains no access token, and needs no nonce. VerifyTokenRequest returns the thumbprint
// of the key (RFC 7638) for the claim "cnf" of the token.
//
// An *[auth.InvalidTokenError] says what is wrong with the proof. Any other error means
// that the proof cannot be verified at present.
func (v *ProofVerifier) VerifyTokenRequest(r *http.Request, endpoint string) (thumbprint string, err error) {
	if err := v.Check(); err != nil {
		return "", err
	}
	p, err := readProof(r.Header["Dpop"])
	if err != nil {
		return "", err
	}
	canonical, err := httpurl.Canonical(endpoint)
	if err != nil {
		return "", err
	}
	now := v.now()
	if err := p.checkRequest(r, []string{canonical}, now, v.maxAge()); err != nil {
		return "", err
	}
	if err := v.use(r.Context(), p, now); err != nil {
		return "", err
	}
	return p.thumbprint, nil
}
