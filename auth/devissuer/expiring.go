package devissuer

import (
	"container/list"
	"crypto/rand"
	"time"
)

// expiring is a map with a size limit whose entries expire. At the limit, put removes the
// oldest entry. The caller must hold a lock. Keys that are secrets are stored as digests, so
// that the time of a lookup does not depend on the secret.
type expiring[T any] struct {
	max     int
	entries map[string]*list.Element
	order   *list.List // of entry[T], oldest first
}

type entry[T any] struct {
	key   string
	value T
	until time.Time // zero: no expiry
}

func newExpiring[T any](limit int) *expiring[T] {
	return &expiring[T]{max: limit, entries: make(map[string]*list.Element), order: list.New()}
}

func (x *expiring[T]) put(key string, value T, until time.Time) {
	x.remove(key)
	for x.order.Len() >= x.max {
		x.remove(x.order.Front().Value.(entry[T]).key)
	}
	x.entries[key] = x.order.PushBack(entry[T]{key, value, until})
}

func (x *expiring[T]) get(key string) (value T, found bool) {
	e, found := x.entries[key]
	if !found {
		return value, false
	}
	stored := e.Value.(entry[T])
	if !stored.until.IsZero() && !time.Now().Before(stored.until) {
		x.remove(key)
		return value, false
	}
	return stored.value, true
}

func (x *expiring[T]) remove(key string) {
	if e, found := x.entries[key]; found {
		x.order.Remove(e)
		delete(x.entries, key)
	}
}

// secret returns a random text with at least 128 bits.
func secret() string { return rand.Text() }
