package jwt

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
)

// replays remembers the proofs that were used for as long as they are valid (RFC 9449,
// section 11.1). It has two generations: after a window the newer one becomes the older
// one, and the older one is dropped, so that it need not search for expired proofs. At
// its limit it rejects new proofs rather than forget one, because a forgotten proof could
// be used twice.
type replays struct {
	window time.Duration // how long a proof is valid, at most

	mu           sync.Mutex
	turned       time.Time // when newer was begun
	newer, older generation
}

type generation struct {
	seen  map[[16]byte]struct{}
	byKey map[string]int
}

const (
	maxProofs       = 200_000 // in a generation, about 10 MB
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
