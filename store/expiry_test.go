package store

import (
	"testing"

	"pgregory.net/rapid"
)

func TestExpiryHeapInvariantHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h expiryHeap
		due := rapid.Int64Range(0, 20)
		onOne := func(change func(t *rapid.T, e *entry)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(h) > 0 {
					change(t, h[rapid.IntRange(0, len(h)-1).Draw(t, "index")])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for i, e := range h {
					if e.index != i || h[(i-1)/2].due > e.due {
						t.Fatalf("the entry at %d has index %d and is due at %d, its parent at %d", i, e.index, e.due, h[(i-1)/2].due)
					}
				}
			},
			"push":     func(t *rapid.T) { h.push(&entry{due: due.Draw(t, "due")}) },
			"remove":   onOne(func(t *rapid.T, e *entry) { h.remove(e) }),
			"advance":  onOne(func(t *rapid.T, e *entry) { h.advance(e, e.due-due.Draw(t, "by")) }),
			"postpone": onOne(func(t *rapid.T, e *entry) { h.postpone(e, e.due+due.Draw(t, "by")) }),
		})
	})
}
