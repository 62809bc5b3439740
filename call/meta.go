package call

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

// errNotOutgoing is the error of SetMeta on a server.
var errNotOutgoing = errors.New("cannot set _meta: a server handles this request; only requests that a client sends can be changed")

// SetMeta adds a member to the _meta object of a request that a client is about to send. A member of
// the same name that the caller has set wins. The key must satisfy mcp.CheckMetaKey and
// must not be reserved by the protocol; the keys of trace context are allowed. On a server
// SetMeta returns an error.
//
// Middleware uses it before it calls next. It is not safe for concurrent use.
func (c *Call) SetMeta(key string, value any) error {
	if !c.d.Outgoing {
		return errNotOutgoing
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("_meta %q: %w", key, err)
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

// AddedMeta returns the members that SetMeta has added; nil for none. It must not be modified.
func (c *Call) AddedMeta() mcp.Meta { return c.added }
