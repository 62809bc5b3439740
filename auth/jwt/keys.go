package jwt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
)

const (
	keysFresh     = time.Hour        // keys of this age are used without a fetch
	keysUsable    = 2 * time.Hour    // keys of this age are used if a fetch fails
	fetchInterval = 10 * time.Second // between two fetches
	fetchTimeout  = 10 * time.Second
	maxCandidates = 8 // keys that are tried for a token that names none
)

// keyCache caches the keys of one issuer. A goroutine that needs newer keys fetches them
// itself, and the others wait for it: at most one fetch runs at a time.
type keyCache struct {
	fetch func(context.Context) ([]publicKey, error)
	now   func() time.Time

	mu       sync.Mutex
	keys     []publicKey
	fetched  time.Time     // the time of the last successful fetch; zero: none
	tried    time.Time     // when the last fetch began
	err      error         // the result of the last fetch
	fetching chan struct{} // closed when the running fetch ends; nil if none runs
}

// find returns the keys that may have signed a token with this key id and algorithm. If
// there is none, the token is not valid.
func (k *keyCache) find(ctx context.Context, id, alg string) ([]any, error) {
	for {
		k.mu.Lock()
		now := k.now()
		age := now.Sub(k.fetched)
		usable := !k.fetched.IsZero() && age < keysUsable
		var found []any
		if usable {
			found = k.match(id, alg)
		}
		if len(found) > 0 && age < keysFresh {
			k.mu.Unlock()
			return found, nil
		}
		if wait := k.fetching; wait != nil {
			k.mu.Unlock()
			if len(found) > 0 {
				return found, nil
			}
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, context.Cause(ctx))
			}
		}
		if !k.tried.IsZero() && now.Sub(k.tried) < fetchInterval {
			err := k.err
			k.mu.Unlock()
			switch {
			case len(found) > 0:
				return found, nil
			case usable:
				return nil, issuer.Invalid("the token is not signed with a key of its issuer")
			}
			return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
		}
		k.tried, k.fetching = now, make(chan struct{})
		k.mu.Unlock()
		k.refresh(ctx)
	}
}

// match returns the cached keys that fit. The caller holds mu.
func (k *keyCache) match(id, alg string) []any {
	var found []any
	for _, key := range k.keys {
		if (id == "" || key.id == id) && (key.alg == "" || key.alg == alg) && fits(alg, key.key) {
			if found = append(found, key.key); len(found) == maxCandidates {
				break
			}
		}
	}
	return found
}

// refresh fetches the keys. The fetch continues when ctx is cancelled, because other
// requests wait for it.
func (k *keyCache) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, err := []publicKey(nil), errors.New("the fetch panicked")
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = err; err == nil {
			k.keys, k.fetched = keys, k.now()
		}
		close(k.fetching)
		k.fetching = nil
	}()
	keys, err = k.fetch(ctx)
}
