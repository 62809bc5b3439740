package changes

import (
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Limits of one subscription.
const (
	MaxSubscribed     = 1_024   // resources of one subscription
	MaxSubscribedURI  = 8 << 10 // bytes of one URI
	MaxSubscribedURIs = 1 << 20 // bytes of all URIs of one subscription
)

// CheckSubscriptions returns an error for the client if a subscription to these resources would exceed a
// limit.
func CheckSubscriptions(uris []string) error {
	bytes := 0
	for i, uri := range uris {
		bytes += len(uri)
		if err := CheckSubscription(uri, i+1, bytes); err != nil {
			return err
		}
	}
	return nil
}

// CheckSubscription returns an error for the client if a subscription must not include a
// resource. With that resource, the subscription has n resources, and the URIs have the given
// number of bytes in total.
func CheckSubscription(uri string, n, bytes int) error {
	switch {
	case n > MaxSubscribed:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "too many resources: the limit is %d", MaxSubscribed)
	case uri == "" || len(uri) > MaxSubscribedURI:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the URI of a resource must have 1 to %d bytes, not %d",
			MaxSubscribedURI, len(uri))
	case bytes > MaxSubscribedURIs:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"the URIs of the resources are too long: the limit is %d bytes",
			MaxSubscribedURIs)
	}
	return nil
}

// MaxOwnerSubscribed limits the bytes of all URIs to which one owner is subscribed, see SubscribedBytes.
const MaxOwnerSubscribed = 8 << 20

// uriOverhead is how many bytes each URI counts in addition to its length, for its
// entries in the maps of subscriptions.
const uriOverhead = 64

// ErrTooManySubscribed is the error of a subscription above MaxOwnerSubscribed.
var ErrTooManySubscribed = &call.OverloadError{Limit: "bytes of subscribed URIs", RetryAfter: time.Minute}

// Owner identifies the client whose sessions, subscriptions and stateless requests are counted together: a
// principal or, for anonymous clients, an address.
type Owner struct {
	principal principal.Principal
	address   string // empty unless the principal is anonymous
}

// OwnerOf returns the owner of what a client does.
func OwnerOf(p principal.Principal, address string) Owner {
	if p != principal.Anonymous {
		address = ""
	}
	return Owner{p, address}
}

// SubscribedSize returns how many bytes the URIs count.
func SubscribedSize(uris ...string) int {
	bytes := 0
	for _, uri := range uris {
		bytes += len(uri)
	}
	return SubscribedSizeOf(len(uris), bytes)
}

// SubscribedSizeOf returns how many bytes n URIs with the given total length count.
func SubscribedSizeOf(n, bytes int) int { return bytes + n*uriOverhead }

// SubscribedBytes counts the bytes of subscribed URIs by owner, in the sessions of connections and in
// subscriptions/listen. Stored sessions are not counted, because each has its own limit. The zero SubscribedBytes is
// ready for use; a nil SubscribedBytes does not count. It is safe for concurrent use.
type SubscribedBytes struct {
	mu     sync.Mutex
	owners map[Owner]int
}

// Add adds n bytes to the count of an owner. It adds nothing and returns ErrTooManySubscribed if
// the count would exceed MaxOwnerSubscribed.
func (b *SubscribedBytes) Add(o Owner, n int) error {
	if b == nil || n == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners[o]+n > MaxOwnerSubscribed {
		return ErrTooManySubscribed
	}
	if b.owners == nil {
		b.owners = make(map[Owner]int)
	}
	b.owners[o] += n
	return nil
}

// Remove subtracts n bytes that Add has added.
func (b *SubscribedBytes) Remove(o Owner, n int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners[o] -= n; b.owners[o] == 0 {
		delete(b.owners, o)
	}
}
