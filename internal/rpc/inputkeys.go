package rpc

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	"github.com/parley-mcp/parley/internal/digest"
)

// Digest identifies the content of an input request. An answer to another content does not count.
func (q InputRequest) Digest() string { return digest.Join([]byte(q.Method), q.Params) }

// InputKeys assigns keys to the input requests of one run of a handler. Another run that makes the
// same requests in the same order gets the same keys. The zero value is for a new run.
type InputKeys struct {
	used map[string]bool
	same map[string]int // how often a request without a key was made, by digest
}

// Clone returns a copy.
func (k *InputKeys) Clone() InputKeys { return InputKeys{maps.Clone(k.used), maps.Clone(k.same)} }

// Take returns the key of an input request, and generates one if it has none. The keys of a run
// must be unique. Known returns the digest of the request of an earlier run with a key, or "". If it
// is another request, the key is not used again: for the client, a key means one request (2026-07-28,
// basic/patterns/mrtr; tasks extension, Input Requests).
func (k *InputKeys) Take(q InputRequest, known func(key string) (digest string)) (string, error) {
	key := k.Next(q, known)
	given := cmp.Or(q.Key, key)
	if k.used == nil {
		k.used, k.same = make(map[string]bool), make(map[string]int)
	}
	if k.used[given] {
		return "", fmt.Errorf("the key %q is used for two input requests of this call: choose another key", given)
	}
	if q.Key == "" {
		k.same[q.Digest()]++
	}
	k.used[given], k.used[key] = true, true
	return key, nil
}

// Used reports whether an input request of this run has the key.
func (k *InputKeys) Used(key string) bool { return k.used[key] }

// Next returns the key that Take would return for q.
func (k *InputKeys) Next(q InputRequest, known func(key string) (digest string)) string {
	sum := q.Digest()
	if q.Key != "" {
		if before := known(q.Key); before == "" || before == sum {
			return q.Key
		}
		return q.Key + "-" + sum[:12]
	}
	return q.Method + "-" + sum[:12] + "-" + strconv.Itoa(k.same[sum]+1)
}
