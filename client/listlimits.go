package client

import (
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/parley-mcp/parley/call"
)

// Limits on one list. A server may choose the size of its pages, so their number has no limit.
const (
	maxListed      = 100_000  // entries
	maxListedBytes = 64 << 20 // bytes of all pages
	maxEmptyPages  = 64       // in a row
)

// ErrIncompleteList means that the client has not requested the remaining pages of a list, for example
// because the cursor of the next page repeats. The entries that came before it are valid. The error is
// also a call.ErrInvalidResponse.
var ErrIncompleteList = errors.New("the list is incomplete")

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
	return fmt.Errorf("%w: %s: %w after %d entries: %s", call.ErrInvalidResponse, l.method, ErrIncompleteList, l.entries, reason)
}
