package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// publicKey is one key of an issuer.
type publicKey struct {
	id, alg string // alg is empty for a key of any algorithm that fits
	key     any
}

const (
	keysFresh   = time.Hour        // for which keys are used without asking again
	keysUsable  = 2 * time.Hour    // for which they are when asking fails
	keysPause   = 10 * time.Second // between two fetches, however many want one
	maxKeys     = 64
	maxUnnamed  = 8 // keys that are tried for a token that names none
	keysTimeout = 10 * time.Second
)

// keyCache are the keys of one issuer. Whoever finds that they have to be fetched does
// so, and the others wait for it: there is one fetch at a time and no goroutine.
type keyCache struct {
	fetch func(context.Context) ([]publicKey, error)
	now   func() time.Time

	mu       sync.Mutex
	keys     []publicKey
	fetched  time.Time     // when keys came; zero: never
	tried    time.Time     // when a fetch last began
	err      error         // how that ended
	fetching chan struct{} // closed when it has; nil when there is none
}

// find returns the keys that a token with this key id and algorithm may be signed
// with. That there is none makes the token invalid.
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
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
			}
		}
		if !k.tried.IsZero() && now.Sub(k.tried) < keysPause {
			err := k.err
			k.mu.Unlock()
			switch {
			case len(found) > 0:
				return found, nil
			case usable:
				return nil, invalid("it is signed with no key of its issuer")
			}
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		k.tried, k.fetching = now, make(chan struct{})
		k.mu.Unlock()
		k.refresh(ctx)
	}
}

// match is called with mu held.
func (k *keyCache) match(id, alg string) []any {
	var found []any
	for _, key := range k.keys {
		if (id == "" || key.id == id) && (key.alg == "" || key.alg == alg) && fits(alg, key.key) {
			if found = append(found, key.key); len(found) == maxUnnamed {
				break
			}
		}
	}
	return found
}

// refresh fetches the keys for all who wait, whether or not the request goes away that
// it happens in.
func (k *keyCache) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
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

// readKeys reads a JWK Set (RFC 7517, section 5). Keys that are not for signatures, or
// of a kind that we do not know, are left out.
func readKeys(data []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the key set is not one: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []publicKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		switch k.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			keys = append(keys, publicKey{k.KeyID, k.Algorithm, k.Key})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for signatures")
	}
	return slices.Clip(keys), nil
}
