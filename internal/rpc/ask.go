package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of asking.
var (
	// ErrInputRequired ends the handler of a call that waits for its client: the
	// handler runs again, from its beginning, when the answers are there. It is the
	// cause with which the handler's context ends, and what asks return meanwhile.
	// Return it; it never reaches the client.
	ErrInputRequired = errors.New("the call waits for input: return, the handler will run again")
	// ErrCannotAsk is returned where the protocol has no place for a question: while
	// serving anything but tools/call, prompts/get and resources/read, or a client that
	// takes no messages before its response.
	ErrCannotAsk = errors.New("this call cannot ask its client")
	// ErrUnsupported is returned for what the revision of the protocol does not have.
	ErrUnsupported = errors.New("not in this revision of the protocol")
)

// InputRequest is a request to the client that is being served.
type InputRequest struct {
	// Key tells the question from the call's others, and finds its answer when the
	// handler runs again. Empty: made of the method, the params and how often the same
	// has been asked before.
	Key    string
	Method string // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage
}

// InputRequester puts questions to the client of a call. How it does so is the era's: as
// requests of the server's own, or as a result that asks for another request.
type InputRequester interface {
	// RequestInput puts all questions at once and returns the answers in their order.
	RequestInput(ctx context.Context, c *Call, questions []InputRequest) ([]json.RawMessage, error)
	// Finish makes the outcome of the call of what its handler has returned. Ctx carries
	// the call; by then it may have ended.
	Finish(ctx context.Context, result any, err error) (any, error)
}

// Replayer is an Asker whose handlers run again for each answer.
type Replayer interface {
	InputRequester
	// Answered reports whether a question would be answered at once if it came next.
	Answered(q InputRequest) bool
}

// Answered reports whether the answer to a question is known, because the handler has
// asked it in an earlier run. Where handlers run once it is false.
func (c *Call) Answered(q InputRequest) bool {
	r, ok := c.InputRequester.(Replayer)
	return ok && r.Answered(q)
}

// InputHandler answers a question of a server's. The error is for the server, and a
// *jsonrpc.Error is told to it as it is.
type InputHandler func(ctx context.Context, method string, params json.RawMessage) (answer json.RawMessage, err error)

// capabilityError is the error that tells the client: in 2026-07-28 it has a code of its own
// (basic, _meta).
func capabilityError(e *call.CapabilityError, r mcp.Revision) *jsonrpc.Error {
	if !r.Modern() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error()}
	}
	data, _ := json.Marshal(mcp.MissingCapabilityData{RequiredCapabilities: e.Required})
	return &jsonrpc.Error{Code: mcp.CodeMissingCapability, Message: e.Error(), Data: data}
}

// RequestInput puts questions to the call's client, all at once, and returns the answers in
// their order.
func (c *Call) RequestInput(ctx context.Context, questions ...InputRequest) ([]json.RawMessage, error) {
	switch c.Method() {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
	default:
		return nil, ErrCannotAsk
	}
	c.mu.Lock()
	over := c.over()
	c.mu.Unlock()
	switch {
	case over != nil:
		return nil, over
	case c.InputRequester == nil:
		return nil, ErrCannotAsk
	}
	return c.InputRequester.RequestInput(ctx, c, questions)
}

// Send sends one message on the call's stream, in its turn.
func (c *Call) Send(ctx context.Context, msg []byte) error {
	if c.Stream == nil {
		return ErrCannotAsk
	}
	return c.send(ctx, func([]byte) []byte { return msg })
}

// Key identifies the call, across all the rounds that it may take: 128 random
// bits, unless the era has restored it.
func (c *Call) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == "" {
		c.key = rand.Text()
	}
	return c.key
}

// IsProtocolError reports whether a handler's error is one that the protocol itself
// reports, rather than one of whatever the handler does.
func (c *Call) IsProtocolError(err error) bool {
	var known *jsonrpc.Error
	var missing *call.CapabilityError
	var required *URLRequiredError
	var lacking *auth.ScopeError
	return errors.As(err, &known) || errors.As(err, &lacking) || c.Revision().Modern() && errors.As(err, &missing) ||
		revision.URLElicitation.In(c.Revision()) && errors.As(err, &required)
}

// Suspend ends the handler's context because the call waits for its client.
// Nothing more can be asked or sent in this round.
func (c *Call) Suspend() {
	c.mu.Lock()
	c.waiting = true
	c.mu.Unlock()
	c.Cancel(ErrInputRequired)
}

// Mute keeps what the handler sends from being sent, without an error: it has been
// sent in an earlier round.
func (c *Call) Mute(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted = on
}

// Claim takes a key that may be used once in a run of the handler.
func (c *Call) Claim(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.over(); err != nil {
		return err
	}
	if c.claimed[key] {
		return fmt.Errorf("the key %q is used twice in one call: choose another", key)
	}
	if c.claimed == nil {
		c.claimed = make(map[string]bool)
	}
	c.claimed[key] = true
	return nil
}

// Restore gives the call the key that it had in an earlier round.
func (c *Call) Restore(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = key
}
