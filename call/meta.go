package call

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

// errNotOutgoing is the error of SetMeta on a server.
var errNotOutgoing = errors.New("cannot set _meta of a request that a server handles: use SetMeta in the middleware of a client")

// SetMeta adds a member to the _meta object of a request that a client is about to send. If the
// caller of the client has set a member with the same key, that one is sent instead, unless it is
// trace context. Middleware calls SetMeta before it calls next.
//
// The key must satisfy [mcp.CheckMetaKey] and must not be reserved by the protocol; the keys of
// trace context are allowed. SetMeta returns an error for another key, for a value that has no
// JSON encoding, and on a server. It is not safe for concurrent use.
func (c *Call) SetMeta(key string, value any) error {
	if !c.d.Outgoing {
		return errNotOutgoing
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot encode _meta %q: %w", key, err)
	}
	if err := mcp.CheckMeta(key, raw); err != nil {
		return err
	}
	if c.added == nil {
		c.added = make(mcp.Meta)
	}
	c.added[key] = raw
	return nil
}

// AddedMeta returns the members that SetMeta has added, or nil if there are none. The map must
// not be modified.
func (c *Call) AddedMeta() mcp.Meta { return c.added }
