package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/mcp"
)

// Errors of input requests.
var (
	// ErrInputRequired is returned for an input request whose response is not there yet, and is
	// the cause of the handler's context then. The handler must return; it runs again, from its
	// beginning, when the response is there. The client does not see the error.
	ErrInputRequired = errors.New("the call waits for the client's input: return, and the handler runs again")
	// ErrCannotAsk is returned if the call cannot send input requests: its method is not
	// tools/call, prompts/get or resources/read, or its client takes no messages before the
	// response.
	ErrCannotAsk = errors.New("this call cannot send requests to its client")
	// ErrUnsupported is returned for a feature that the revision of the protocol does not have.
	ErrUnsupported = errors.New("not supported by this revision of the protocol")
)

// InputRequest is a request of the server to the client whose call it serves.
type InputRequest struct {
	// Key identifies the request within the call, so that its response is found when the
	// handler runs again. If it is empty, it is derived from the method, the params and the
	// number of equal requests before it.
	Key    string
	Method string // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage
}

// InputRequester sends input requests to the client of a call. The era decides how: as requests
// of the server, or in a result that asks the client to repeat the call.
type InputRequester interface {
	// RequestInput sends all requests at the same time and returns the responses in their
	// order.
	RequestInput(ctx context.Context, c *Call, requests []InputRequest) ([]json.RawMessage, error)
	// Finish returns the outcome of the call, given what the handler returned. The context
	// carries the call and may have ended.
	Finish(ctx context.Context, result any, err error) (any, error)
}

// Replayer is an InputRequester that runs the handler again for each response.
type Replayer interface {
	InputRequester
	// Answered reports whether the response is there, if r is the next request.
	Answered(r InputRequest) bool
}

// InputHandler handles an input request on the client. The error is for the server, which
// receives a *jsonrpc.Error unchanged.
type InputHandler func(ctx context.Context, method string, params json.RawMessage) (response json.RawMessage, err error)

// RequestInput sends all requests at the same time to the call's client, and returns the
// responses in their order.
func (c *Call) RequestInput(ctx context.Context, requests ...InputRequest) ([]json.RawMessage, error) {
	switch c.Method() {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
	default:
		return nil, ErrCannotAsk
	}
	c.mu.Lock()
	ended := c.ended()
	c.mu.Unlock()
	switch {
	case ended != nil:
		return nil, ended
	case c.InputRequester == nil:
		return nil, ErrCannotAsk
	}
	return c.InputRequester.RequestInput(ctx, c, requests)
}

// Answered reports whether the response to a request is there because the handler has sent it
// in an earlier run. It is false in revisions that run the handler once.
func (c *Call) Answered(r InputRequest) bool {
	replayer, ok := c.InputRequester.(Replayer)
	return ok && replayer.Answered(r)
}
