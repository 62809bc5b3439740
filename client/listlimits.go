package client

import (
	"fmt"
	"hash/maphash"
)

// Limits on one list. A server may choose the size of its pages, so their number has no limit.
const (
	maxListed      = 100_000  // entries
	maxListedBytes = 64 << 20 // bytes of all pages
	maxEmptyPages  = 64       // in a row
)

// IncompleteListError reports that the client has not requested the remaining pages of a list.
// The entries that came before it are valid. It is also an [ErrInvalidResponse].
type IncompleteListError struct {
	Method  string // such as "tools/list"
	Entries int    // the number of entries that came
	Reason  string // such as "the cursor of the next page repeats"
}

// Error implements the error interface.
func (e *IncompleteListError) Error() string {
	return fmt.Sprintf("%s: %s: the list is incomplete after %d entries: %s", ErrInvalidResponse, e.Method, e.Entries, e.Reason)
}

// Unwrap returns ErrInvalidResponse.
func (e *IncompleteListError) Unwrap() error { return ErrInvalidResponse }

// listLimits checks one list against the limits.
type listLimits struct {
	method                string
	entries, bytes, empty int // empty is the number of empty pages in a row
	seed                  maphash.Seed
	cursors               map[uint64]struct{} // hashes, because cursors may be long
}

func newListLimits(method string) *listLimits {
	return &listLimits{method: method, seed: maphash.MakeSeed(), cursors: make(map[uint64]struct{})}
}

// add counts a page. It returns an error if the client must not request the next one.
func (l *listLimits) add(entries, bytes int, next string) error {
	l.entries += entries
	l.bytes += bytes
	if l.empty++; entries > 0 {
		l.empty = 0
	}
	cursor := maphash.String(l.seed, next)
	_, repeated := l.cursors[cursor]
	l.cursors[cursor] = struct{}{}
	reason := ""
	switch {
	case repeated:
		reason = "the cursor of the next page repeats"
	case l.entries >= maxListed:
		reason = fmt.Sprintf("the limit is %d entries", maxListed)
	case l.bytes >= maxListedBytes:
		reason = fmt.Sprintf("the limit is %d MiB", maxListedBytes>>20)
	case l.empty >= maxEmptyPages:
		reason = fmt.Sprintf("the server sent %d empty pages in a row", l.empty)
	default:
		return nil
	}
	return &IncompleteListError{Method: l.method, Entries: l.entries, Reason: reason}
}
