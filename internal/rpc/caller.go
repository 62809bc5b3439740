package rpc

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
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

// DeclaredInput returns the kinds of input requests that the client of the call declares.
func (c *Call) DeclaredInput() (kinds InputKinds) {
	declared := c.Peer().Capabilities
	if c.Can(revision.FormElicitation) && declared.Elicitation.SupportsForm() {
		kinds |= FormInput
	}
	if c.Can(revision.URLElicitation) && declared.Elicitation.SupportsURL() {
		kinds |= URLInput
	}
	if declared.Sampling != nil {
		kinds |= SamplingInput
		if declared.Sampling.Tools != nil && c.Can(revision.SamplingTools) {
			kinds |= SamplingToolsInput
		}
	}
	if declared.Roots != nil {
		kinds |= RootsInput
	}
	return kinds
}

// Caller is on whose behalf a client sends a request. The zero Caller is the program itself.
type Caller struct {
	// Key identifies the caller. It must be comparable.
	Key any
	// User, if not nil, identifies the person behind the caller. Where the protocol does not tell for which request a
	// peer asks, callers with the same User can be asked for each other. It must be comparable.
	User any
	// Owner is the principal of a session. Callers with the same Owner share limits.
	Owner principal.Principal
	// Returns means that later requests of the same caller have the same Key.
	Returns bool
	// Input are the kinds of input requests that the caller can answer, if Limited is set. Otherwise it can
	// answer all that the client can.
	Input   InputKinds
	Limited bool
	// Declared are the kinds that the caller can answer in any of its requests, if Limited is set.
	Declared InputKinds
	// Session means that the caller is a session, so that Declared never changes.
	Session bool
	// Permitted means that the policy has decided about the request, for the clients that are its cause.
	Permitted bool
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

// session identifies a session of a client.
type session struct {
	principal principal.Principal
	id        string // of a session that has one
	notifier  any    // identifies other sessions, one for each connection
}

// Caller returns the caller of the call: its session or, in 2026-07-28, its principal. Calls of
// 2026-07-28 without authentication have nothing in common, so each has a caller of its own.
func (c *Call) Caller() Caller {
	if caller := c.AsTask().Caller; caller.Key != nil {
		return caller
	}
	who := c.Principal()
	switch {
	case c.SessionNotifier != nil && c.Source() != "":
		return Caller{Key: session{principal: who, id: c.Source()}, Owner: who, Returns: true, Session: true}
	case c.SessionNotifier != nil:
		return Caller{Key: session{notifier: c.SessionNotifier}, Owner: who, Returns: true, Session: true}
	case who == principal.Anonymous:
		return Caller{Key: c}
	}
	return Caller{Key: who, Owner: who, Returns: true}
}

type localUserKey struct{}

// WithLocalUser returns a context for requests that come from the user of this machine, although they are not
// authenticated: the program accepts no others.
func WithLocalUser(ctx context.Context) context.Context {
	return context.WithValue(ctx, localUserKey{}, true)
}

// UserOf returns the user of a call whose handler has ctx, or nil if it is unknown; see Caller.
func UserOf(ctx context.Context, c *Call) any {
	switch who := c.Principal(); {
	case who != principal.Anonymous:
		return who
	case ctx.Value(localUserKey{}) != nil:
		return principal.Local
	}
	return nil
}

type createdTaskKey struct{}

// WithCreatedTask returns a context for calls of tools that prefer to run as tasks. The client calls created
// when the server has created a task for the call.
func WithCreatedTask(ctx context.Context, created func()) context.Context {
	return context.WithValue(ctx, createdTaskKey{}, created)
}

// CreatedTask returns the function that WithCreatedTask has set, or nil.
func CreatedTask(ctx context.Context) func() {
	created, _ := ctx.Value(createdTaskKey{}).(func())
	return created
}
