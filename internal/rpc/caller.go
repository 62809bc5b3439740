package rpc

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// InputKinds is a set of kinds of input requests.
type InputKinds uint8

// The kinds of input requests.
const (
	FormInput InputKinds = 1 << iota
	URLInput
	SamplingInput
	SamplingToolsInput // with tools; also requires SamplingInput
	RootsInput

	AllInputKinds = FormInput | URLInput | SamplingInput | SamplingToolsInput | RootsInput
)

// InputKinds returns the kinds of input requests that the client of the call can answer while the call is served.
func (c *Call) InputKinds() InputKinds {
	if c.InputRequester == nil || !MayRequestInput(c.Method()) {
		return 0
	}
	return c.DeclaredInput()
}

// DeclaredInput returns the kinds of input requests that the client of the call declares and that its revision has.
func (c *Call) DeclaredInput() (kinds InputKinds) {
	kinds = DeclaredInput(c.Peer().Capabilities)
	if !c.Can(revision.FormElicitation) {
		kinds &^= FormInput
	}
	if !c.Can(revision.URLElicitation) {
		kinds &^= URLInput
	}
	if !c.Can(revision.SamplingTools) {
		kinds &^= SamplingToolsInput
	}
	return kinds
}

// DeclaredInput returns the kinds of input requests that a client with capabilities can answer.
func DeclaredInput(of *mcp.ClientCapabilities) (kinds InputKinds) {
	if of.Elicitation.SupportsForm() {
		kinds |= FormInput
	}
	if of.Elicitation.SupportsURL() {
		kinds |= URLInput
	}
	if of.Sampling != nil {
		kinds |= SamplingInput
		if of.Sampling.Tools != nil {
			kinds |= SamplingToolsInput
		}
	}
	if of.Roots != nil {
		kinds |= RootsInput
	}
	return kinds
}

// Caller is who sends a request: a session of a client, or a principal.
type Caller struct {
	// Session identifies the session among all sessions of the server; empty if there is none.
	Session string
	// Owner is the principal.
	Owner principal.Principal
}

type callerKey struct{}

// WithCaller returns a context for requests on behalf of a caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the caller that WithCaller has set, or the zero Caller.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// Caller returns the caller of the call. That of a task is the caller of the request that has created it.
func (c *Call) Caller() Caller {
	if caller := c.AsTask().Caller; caller != (Caller{}) {
		return caller
	}
	caller := Caller{Owner: c.Principal()}
	if c.SessionNotifier != nil {
		caller.Session = c.SessionNotifier.SessionID()
	}
	return caller
}
