package jwt

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/jsonrpc"
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
	// nonces. Each key must consist of at least 32 random bytes. The first key signs,
	// all keys verify. Empty: a random key.
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

// Algorithms returns the JWS algorithms of proofs that v accepts, for the metadata field
// dpop_signing_alg_values_supported.
func (v *ProofVerifier) Algorithms() []string { return slices.Clone(algorithms) }

// VerifyProof implements [auth.ProofVerifier].
func (v *ProofVerifier) VerifyProof(must auth.Proof) (nonce string, err error) {
	if err := v.Check(); err != nil {
		return "", err
	}
	p, err := readProof(must.Request.Header["Dpop"])
	if err != nil {
		return "", err
	}
	if err := p.checkToken(must.Token, must.Thumbprint); err != nil {
		return "", err
	}
	now := v.now()
	if err := p.checkRequest(must.Request, must.URLs, now, v.maxAge()); err != nil {
		return "", err
	}
	if v.nonces != nil {
		age, ok := v.nonces.age(p.nonce, now)
		if !ok || age > v.nonces.life/2 {
			nonce = v.nonces.issue(now)
		}
		if !ok {
			return nonce, &auth.InvalidTokenError{Reason: "it must contain the nonce of the DPoP-Nonce header",
				Code: codeUseNonce}
		}
	}
	return nonce, v.use(must.Request.Context(), p, now)
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

// proof is a DPoP proof whose signature has been verified.
type proof struct {
	id, method, url  string
	tokenHash, nonce string
	issued           time.Time
	thumbprint       string // thumbprint of the key that signed it
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

// nonces issues and verifies the nonces of proofs (RFC 9449, section 9). A nonce is its
// time of issue with a message authentication code, so nonces need not be stored.
type nonces struct {
	keys [][]byte // the newest first
	life time.Duration
}

const (
	nonceLife = 5 * time.Minute
	nonceMAC  = 16 // bytes
)

func newNonces(keys [][]byte) *nonces {
	if len(keys) == 0 {
		key := make([]byte, 32)
		rand.Read(key)
		keys = [][]byte{key}
	}
	return &nonces{keys, nonceLife}
}

func (n *nonces) issue(now time.Time) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(at, mac(n.keys[0], at)...))
}

// age returns the age of a nonce, and whether it is authentic and valid.
func (n *nonces) age(nonce string, now time.Time) (time.Duration, bool) {
	data, ok := decodeBase64(nonce)
	if !ok || len(data) != 8+nonceMAC {
		return 0, false
	}
	authentic := false
	for _, key := range n.keys {
		authentic = authentic || hmac.Equal(mac(key, data[:8]), data[8:])
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(data)), 0))
	return age, authentic && age < n.life && age > -n.life // the clock of another replica can be ahead
}

func mac(key, at []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("parley dpop nonce\x00"))
	h.Write(at)
	return h.Sum(nil)[:nonceMAC]
}

// replays remembers the proofs that were used for as long as they are valid (RFC 9449,
// section 11.1). It keeps two generations: after each window, the newer generation
// becomes the older one, and the older one is dropped, so that no search for expired
// proofs is necessary. At its limit, it rejects new proofs: it never forgets one, because
// a forgotten proof could be used twice.
type replays struct {
	window time.Duration // the longest time for which a proof is valid

	mu           sync.Mutex
	turned       time.Time // when newer was begun
	newer, older generation
}

type generation struct {
	seen  map[[16]byte]struct{}
	byKey map[string]int
}

const (
	maxProofs       = 200_000 // per generation, about 10 MB
	maxProofsPerKey = 50_000
)

var errTooManyProofs = fmt.Errorf("%w: too many DPoP proofs in a short time", auth.ErrUnavailable)

// use records a proof. It returns an error if the proof was used before, or cannot be
// recorded.
func (r *replays) use(key, id string, now time.Time) error {
	digest := sha256.Sum256([]byte(key + "\x00" + id))
	short := [16]byte(digest[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.turned); since >= r.window || r.newer.seen == nil {
		r.older = r.newer
		if since >= 2*r.window {
			r.older = generation{}
		}
		r.newer, r.turned = generation{make(map[[16]byte]struct{}), make(map[string]int)}, now
	}
	_, used := r.newer.seen[short]
	if !used {
		_, used = r.older.seen[short]
	}
	switch {
	case used:
		return invalidProof("it was used before")
	case len(r.newer.seen) >= maxProofs || r.newer.byKey[key] >= maxProofsPerKey:
		return errTooManyProofs
	}
	r.newer.seen[short] = struct{}{}
	r.newer.byKey[key]++
	return nil
}
