package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
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

// inputNeeds says what each kind of input request needs: a revision that has it, and a capability of the client. The
// capabilities are not modified.
var inputNeeds = [...]struct {
	kind       InputKinds
	name       string
	since      revision.Feature
	capability mcp.ClientCapabilities
}{
	{FormInput, "elicitation", revision.FormElicitation,
		mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}},
	{URLInput, "URL elicitation", revision.URLElicitation,
		mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &mcp.Supported{}}}},
	{SamplingInput, "sampling", revision.Feature{},
		mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}}},
	{SamplingToolsInput, "sampling with tools", revision.SamplingTools,
		mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{Tools: &mcp.Supported{}}}},
	{RootsInput, "roots", revision.Feature{},
		mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}},
}

// NeededInput returns the kinds that a client must support to answer an input request, none for an unknown method.
// Params are a JSON object or nil.
func NeededInput(method string, params json.RawMessage) InputKinds {
	has := func(name string) bool { _, ok := jsonrpc.Get(params, name); return ok }
	switch method {
	case mcp.MethodElicit:
		if mode, _ := jsonrpc.Get(params, "mode"); mcp.ElicitMode(jsonrpc.Unquote(mode)) == mcp.ElicitModeURL {
			return URLInput
		}
		return FormInput
	case mcp.MethodCreateMessage:
		var decoded mcp.CreateMessageParams
		if has("tools") || has("toolChoice") || schema.Decode(params, &decoded) == nil && decoded.UsesTools() {
			return SamplingInput | SamplingToolsInput
		}
		return SamplingInput
	case mcp.MethodListRoots:
		return RootsInput
	}
	return 0
}

// CheckInput returns an error if the client of the call cannot answer input requests of the needed kinds: it wraps
// ErrUnsupported if the revision does not have one, and is a *call.CapabilityError if the client has not declared it.
func (c *Call) CheckInput(needed InputKinds) error {
	for _, n := range inputNeeds {
		if needed&n.kind != 0 && !c.Can(n.since) {
			return fmt.Errorf("%s: %w", n.name, ErrUnsupported)
		}
	}
	return MissingInput(c.Peer().Capabilities, needed)
}

// MissingInput returns a *call.CapabilityError if a client with capabilities has not declared a needed kind.
func MissingInput(declared *mcp.ClientCapabilities, needed InputKinds) error {
	missing := needed &^ DeclaredInput(declared)
	for _, n := range inputNeeds {
		if missing&n.kind != 0 {
			return &call.CapabilityError{Required: n.capability}
		}
	}
	return nil
}

// DeclaredInput returns the kinds of input requests that the client of the call declares and that its revision has.
func (c *Call) DeclaredInput() InputKinds {
	kinds := DeclaredInput(c.Peer().Capabilities)
	for _, n := range inputNeeds {
		if !c.Can(n.since) {
			kinds &^= n.kind
		}
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
