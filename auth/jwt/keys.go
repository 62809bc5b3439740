package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
	"github.com/parley-mcp/parley/internal/httpurl"
)

const (
	keysFresh     = time.Hour        // keys of this age are used without a fetch
	keysUsable    = 2 * time.Hour    // keys of this age are used if a fetch fails
	fetchInterval = 10 * time.Second // minimum time between two fetches
	fetchTimeout  = 10 * time.Second
	maxCandidates = 8 // keys that are tried for a token without a key ID
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

// find returns the keys that may have signed a token with this key ID and algorithm, and when they were fetched. If it
// returns none, the token is not valid. If the cached keys were fetched at newer or before, it fetches them again,
// unless the last fetch was a moment ago.
func (k *keyCache) find(ctx context.Context, id, alg string, newer time.Time) ([]any, time.Time, error) {
	for {
		k.mu.Lock()
		now := k.now()
		age := now.Sub(k.fetched)
		usable := !k.fetched.IsZero() && age < keysUsable
		var found []any
		if usable {
			found = k.match(id, alg)
		}
		fetched := k.fetched
		if len(found) > 0 && age < keysFresh && fetched.After(newer) {
			k.mu.Unlock()
			return found, fetched, nil
		}
		if wait := k.fetching; wait != nil {
			k.mu.Unlock()
			if len(found) > 0 && fetched.After(newer) {
				return found, fetched, nil
			}
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, fetched, fmt.Errorf("%w: %w", auth.ErrUnavailable, context.Cause(ctx))
			}
		}
		if !k.tried.IsZero() && now.Sub(k.tried) < fetchInterval {
			err := k.err
			k.mu.Unlock()
			switch {
			case len(found) > 0:
				return found, fetched, nil
			case usable:
				return nil, fetched, issuer.Invalid("the token is not signed with a key of its issuer")
			}
			return nil, fetched, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
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

// publicKey is a key of an issuer.
type publicKey struct {
	id, alg string // alg is empty if the key does not name an algorithm
	key     any
}

const maxKeys = 64

// fetchKeys fetches the keys of an issuer from the URL from; empty: from the URL in the
// issuer's metadata.
func fetchKeys(ctx context.Context, client *issuer.Client, id, from string) ([]publicKey, error) {
	if from == "" {
		var err error
		if from, err = keysURL(ctx, client, id); err != nil {
			return nil, fmt.Errorf("metadata of the issuer %s: %w", id, err)
		}
	}
	data, err := client.Get(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("keys of the issuer %s: %w", id, err)
	}
	keys, err := readKeys(data)
	if err != nil {
		return nil, fmt.Errorf("keys of the issuer %s: %w", id, err)
	}
	return keys, nil
}

// keysURL returns the jwks_uri of an issuer's metadata. It looks for the metadata at the
// same URLs, and in the same order, as clients do (2026-07-28, basic/authorization,
// Authorization Server Metadata Discovery).
func keysURL(ctx context.Context, client *issuer.Client, id string) (string, error) {
	u, err := url.Parse(id)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	candidates := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		candidates = append(candidates, origin+path+"/.well-known/openid-configuration")
	}
	for _, candidate := range candidates {
		var data []byte
		data, err = client.Get(ctx, candidate)
		var status *issuer.StatusError
		if errors.As(err, &status) && status.Status >= 400 && status.Status < 500 {
			continue
		}
		if err != nil {
			return "", err
		}
		return readKeysURL(data, id)
	}
	return "", err
}

// readKeysURL reads the jwks_uri in the metadata of an issuer.
func readKeysURL(data []byte, id string) (string, error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := jsonv2.Unmarshal(data, &metadata); err != nil {
		return "", fmt.Errorf("the metadata must be a JSON object: %w", err)
	}
	if metadata.Issuer != id {
		return "", fmt.Errorf("the metadata names another issuer, %.200q", metadata.Issuer)
	}
	keys, err := httpurl.ParseSecure(metadata.KeysURL)
	if err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	if keys.Scheme == "http" && strings.HasPrefix(strings.ToLower(id), "https:") {
		return "", errors.New("jwks_uri: the URL must begin with https://, as the issuer does")
	}
	return metadata.KeysURL, nil
}

// readKeys reads a JWK Set (RFC 7517, section 5). It skips keys that are not for
// signatures, and keys of unknown types.
func readKeys(data []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := jsonv2.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the key set must be a JWK Set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has too many keys: %d, the limit is %d", len(set.Keys), maxKeys)
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
