package devissuer

import (
	"container/list"
	"crypto/rand"
	"time"
)

// expiring is a map whose entries end: each at its time, and the oldest when there are too many. Its
// user holds the lock.
type expiring[T any] struct {
	max     int
	entries map[string]*list.Element
	order   *list.List // of entry[T], oldest first
}

type entry[T any] struct {
	key   string
	value T
	until time.Time // zero: until there are too many
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
	kept := e.Value.(entry[T])
	if !kept.until.IsZero() && !time.Now().Before(kept.until) {
		x.remove(key)
		return value, false
	}
	return kept.value, true
}

func (x *expiring[T]) remove(key string) {
	if e, found := x.entries[key]; found {
		x.order.Remove(e)
		delete(x.entries, key)
	}
}

// secret returns 130 random bits or more as text.
func secret() string { return rand.Text() }
