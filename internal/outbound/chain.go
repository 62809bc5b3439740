package outbound

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Chain is the middleware of a client's requests. A nil Chain has no middleware. It is safe for concurrent use.
type Chain struct {
	// Mirror returns the parameters of a tool call that a transport may repeat, if middleware has replaced them.
	Mirror func(tool string, params []byte) ([]rpc.MirroredParam, error)

	handle call.Handler
}

// NewChain returns a chain of this middleware, the first one outermost, or nil if there is none.
func NewChain(middleware ...call.Middleware) *Chain {
	if len(middleware) == 0 {
		return nil
	}
	c := &Chain{handle: transmit}
	for i := len(middleware) - 1; i >= 0; i-- {
		c.handle = middleware[i](c.handle)
	}
	return c
}

// outgoing is a request inside the middleware. The context carries it to the innermost handler.
type outgoing struct {
	call    call.Call
	added   mcp.Meta // _meta that the middleware added
	chain   *Chain
	request *Request
	send    func(context.Context, *Request) (json.RawMessage, error)

	received json.RawMessage // the last result
	handed   *rpc.Handed     // the same, decoded, if it has a type
}

type outgoingKey struct{}

// Do passes req, which may be a notification, through the middleware to send, and returns the result. The middleware
// sees a call in revision r with its typed result. If the middleware returns another result, Do encodes that one.
func (c *Chain) Do(ctx context.Context, r mcp.Revision, req *Request,
	send func(context.Context, *Request) (json.RawMessage, error)) (json.RawMessage, error) {
	if c == nil {
		return send(ctx, req)
	}
	o := &outgoing{added: make(mcp.Meta), chain: c, request: req, send: send}
	o.call = *call.New(call.Description{Method: req.Method, Params: jsonrpc.MembersOf(req.Params), Revision: r,
		Added: o.added})
	result, err := c.handle(context.WithValue(ctx, outgoingKey{}, o), &o.call)
	if err != nil {
		return nil, err
	}
	if result == nil && revision.IsNotification(req.Method) {
		return nil, nil
	}
	if result == nil {
		return nil, fmt.Errorf("%s: middleware must return a result or an error", req.Method)
	}
	if _, ok := o.handed.Unchanged(result); ok {
		return o.received, nil
	}
	raw, isRaw := result.(json.RawMessage)
	if !isRaw {
		raw, err = json.Marshal(result)
	}
	if err == nil {
		err = jsonrpc.Check(raw, jsonrpc.Limits{})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot encode the result of the middleware: %w", req.Method, err)
	}
	return raw, nil
}

// transmit is the innermost handler.
func transmit(ctx context.Context, c *call.Call) (any, error) {
	o, _ := ctx.Value(outgoingKey{}).(*outgoing)
	if o == nil || &o.call != c {
		return nil, rpc.ErrOtherCall
	}
	req := o.request
	if changed := c.Params(); changed != c.ParamsBefore() {
		replaced := *req
		replaced.Params = changed.Raw()
		target, _ := changed.Get(revision.NameMember(req.Method))
		replaced.Name = jsonrpc.Unquote(target)
		if req.Method == mcp.MethodCallTool {
			var err error
			if replaced.Mirror, err = o.chain.Mirror(replaced.Name, replaced.Params); err != nil {
				return nil, err
			}
		}
		req = &replaced
	}
	req.Call = c
	if added := o.added; len(added) > 0 {
		extended := *req
		extended.Meta = maps.Clone(added)
		maps.Copy(extended.Meta, req.Meta) // the caller's entries win
		// The trace context is an exception, because it names the last span of the request: a gateway forwards the
		// context that it received, but its middleware has started a span since then.
		for _, key := range []string{mcp.MetaTraceParent, mcp.MetaTraceState} {
			if value := added[key]; value != nil {
				extended.Meta[key] = value
			}
		}
		req = &extended
	}
	o.request.RanBefore = o.request.RanBefore || o.request.MayHaveRun
	req.MayHaveRun = false
	raw, err := o.send(ctx, req)
	o.request.Token, o.request.MayHaveRun = req.Token, req.MayHaveRun
	if err != nil {
		return nil, err
	}
	result, err := decodeResult(req, c.Revision(), raw)
	if err != nil {
		return nil, err
	}
	if result == nil {
		return raw, nil
	}
	o.received, o.handed = raw, rpc.Hand(&rpc.Encoded{Result: func() any { return result }, Fresh: true})
	return o.handed.Copy, nil
}
