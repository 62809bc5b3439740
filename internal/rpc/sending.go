package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Sending is middleware that requests of this side pass through on their way out. A
// nil Sending is none. Safe for concurrent use.
type Sending struct{ handle Handler }

// NewSending makes a Sending of middleware, the first outermost; nil of none.
func NewSending(middleware ...Middleware) *Sending {
	if len(middleware) == 0 {
		return nil
	}
	s := &Sending{handle: transmit}
	for i := len(middleware) - 1; i >= 0; i-- {
		s.handle = middleware[i](s.handle)
	}
	return s
}

// outgoing is what a Call of this side's has beside what one of a peer's has.
type outgoing struct {
	request *Request
	meta    mcp.Meta // beside request's own
	send    func(context.Context, *Request) (json.RawMessage, error)
}

// Do has send send req, inside the middleware, and returns the result. The middleware
// sees a Call in the given revision that has a method and params, and an Outcome whose
// Result is the json.RawMessage that the peer answered with; it may put another value in
// its place, which is encoded.
func (s *Sending) Do(ctx context.Context, r mcp.Revision, req *Request, send func(context.Context, *Request) (json.RawMessage, error)) (json.RawMessage, error) {
	if s == nil {
		return send(ctx, req)
	}
	out := s.handle(ctx, &Call{
		Method: req.Method, Params: jsonrpc.MembersOf(req.Params), RawParams: req.Params,
		Revision: r, Peer: Peer{Info: new(mcp.Implementation)},
		outgoing: &outgoing{request: req, send: send},
	})
	if out.Err != nil {
		return nil, out.Err
	}
	switch result := out.Result.(type) {
	case json.RawMessage:
		return result, nil
	case nil:
		return nil, fmt.Errorf("%s: the middleware returned neither a result nor an error", req.Method)
	default:
		return json.Marshal(result)
	}
}

// transmit is the innermost handler.
func transmit(ctx context.Context, c *Call) Outcome {
	req := c.outgoing.request
	if len(c.outgoing.meta) > 0 {
		extended := *req
		extended.Meta = maps.Clone(c.outgoing.meta)
		maps.Copy(extended.Meta, req.Meta) // what the caller says goes
		req = &extended
	}
	raw, err := c.outgoing.send(ctx, req)
	if err != nil {
		return Fail(err)
	}
	return Outcome{Result: raw}
}

// SetMeta adds a member to the _meta that a request of this side is sent with, unless
// whoever made the request has given it one of that name; see Dialer.Middleware of package
// client. Keys follow the grammar of mcp.CheckMetaKey, and are not the protocol's own but
// for those of trace context. A Call that is served has no such thing, which is an error.
//
// It is for middleware, before it calls next, and not safe for concurrent use.
func (c *Call) SetMeta(key string, value any) error {
	if c.outgoing == nil {
		return fmt.Errorf("_meta %q: the call is one that is served: only requests on their way out can be given more", key)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("_meta %q: %w", key, err)
	}
	if err := CheckMeta(key, raw); err != nil {
		return err
	}
	if c.outgoing.meta == nil {
		c.outgoing.meta = make(mcp.Meta)
	}
	c.outgoing.meta[key] = raw
	return nil
}

// CheckMeta returns what is wrong with a member of _meta that a program sends: it would
// make the request another one than was meant, or none.
func CheckMeta(key string, value []byte) error {
	switch key {
	case mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage:
	default:
		if err := mcp.CheckMetaKey(key); err != nil {
			return err
		}
		if mcp.ReservedMetaKey(key) {
			return fmt.Errorf("%w %q: it is the protocol's own", mcp.ErrMetaKey, key)
		}
	}
	if err := jsonrpc.Check(value, jsonrpc.Limits{}); err != nil {
		return fmt.Errorf("_meta %q is not JSON: %w", key, err)
	}
	return nil
}
