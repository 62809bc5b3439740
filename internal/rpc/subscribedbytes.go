package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/principal"
)

// MaxOwnerSubscribed limits the bytes of all URIs to which one owner is subscribed, see
// SubscribedBytes.
const MaxOwnerSubscribed = 8 << 20

// uriOverhead is the number of bytes that each URI counts in addition to its length: its
// entries in the maps of subscriptions.
const uriOverhead = 64

// ErrTooManySubscribed is the error of a subscription above MaxOwnerSubscribed.
var ErrTooManySubscribed = &call.OverloadError{Limit: "bytes of subscribed URIs", RetryAfter: time.Minute}

// Owner identifies the client whose subscriptions are counted together: a principal or, for
// anonymous clients, an address.
type Owner struct {
	principal principal.Principal
	address   string // empty unless the principal is anonymous
}

// OwnerOf returns the owner of the subscriptions of a client.
func OwnerOf(p principal.Principal, address string) Owner {
	if p != principal.Anonymous {
		address = ""
	}
	return Owner{p, address}
}

// SubscribedSize returns the number of bytes that the URIs of subscriptions count.
func SubscribedSize(uris ...string) int {
	bytes := 0
	for _, uri := range uris {
		bytes += len(uri)
	}
	return SubscribedSizeOf(len(uris), bytes)
}

// SubscribedSizeOf returns the number of bytes that n URIs count, whose length is bytes together.
func SubscribedSizeOf(n, bytes int) int { return bytes + n*uriOverhead }

// SubscribedBytes counts the bytes of subscribed URIs by owner, in sessions and in
// subscriptions/listen. The zero SubscribedBytes is ready for use; the nil SubscribedBytes does
// not count. It is safe for concurrent use.
type SubscribedBytes struct {
	onFull func(context.Context, Owner)

	mu     sync.Mutex
	owners map[Owner]int
}

// OnFull sets a function that Add calls, without holding a lock, when an owner reaches the
// limit. It may subtract bytes of subscriptions that have ended. OnFull must be called before
// the first Add.
func (b *SubscribedBytes) OnFull(release func(context.Context, Owner)) {
	if b != nil {
		b.onFull = release
	}
}

// Add adds n bytes to the count of an owner. It adds nothing and returns ErrTooManySubscribed if
// the count would exceed MaxOwnerSubscribed.
func (b *SubscribedBytes) Add(ctx context.Context, o Owner, n int) error {
	if b == nil || n == 0 || b.tryAdd(o, n) {
		return nil
	}
	if b.onFull != nil {
		if b.onFull(ctx, o); b.tryAdd(o, n) {
			return nil
		}
	}
	return ErrTooManySubscribed
}

func (b *SubscribedBytes) tryAdd(o Owner, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners[o]+n > MaxOwnerSubscribed {
		return false
	}
	b.add(o, n)
	return true
}

// Force adds n bytes to the count of an owner, also above the limit; a negative n is subtracted.
func (b *SubscribedBytes) Force(o Owner, n int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(o, n)
}

// add is called with mu held.
func (b *SubscribedBytes) add(o Owner, n int) {
	if b.owners == nil {
		b.owners = make(map[Owner]int)
	}
	if b.owners[o] += n; b.owners[o] == 0 {
		delete(b.owners, o)
	}
}
