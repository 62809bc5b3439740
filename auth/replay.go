package auth

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// replays remembers the proofs that were used, for as long as they would be accepted
// (RFC 9449, section 11.1). Two maps take turns, so that nothing has to be searched for
// what has expired. Whoever would have more remembered than is their share is refused:
// to forget a proof would be to accept it twice.
type replays struct {
	window time.Duration // for which a proof is accepted, at most

	mu           sync.Mutex
	turned       time.Time // when the newer one was begun
	newer, elder generation
}

type generation struct {
	seen  map[[16]byte]struct{}
	byKey map[string]int
}

const (
	maxProofs       = 200_000 // of a generation: 10 MB or so
	maxProofsPerKey = 50_000
)

var (
	errReplayed      = errors.New("the proof was used before")
	errTooManyProofs = errors.New("too many proofs are to be remembered")
)

// use notes a proof of a key, unless it was used before.
func (r *replays) use(key, id string, now time.Time) error {
	digest := sha256.Sum256([]byte(key + "\x00" + id))
	short := [16]byte(digest[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.turned); since >= r.window || r.newer.seen == nil {
		r.elder = r.newer
		if since >= 2*r.window {
			r.elder = generation{}
		}
		r.newer, r.turned = generation{make(map[[16]byte]struct{}), make(map[string]int)}, now
	}
	_, again := r.newer.seen[short]
	if !again {
		_, again = r.elder.seen[short]
	}
	switch {
	case again:
		return errReplayed
	case len(r.newer.seen) >= maxProofs || r.newer.byKey[key] >= maxProofsPerKey:
		return errTooManyProofs
	}
	r.newer.seen[short] = struct{}{}
	r.newer.byKey[key]++
	return nil
}
