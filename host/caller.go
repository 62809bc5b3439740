package host

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Caller says for whom a [Host] sends a request, and who answers when a server asks something meanwhile. A program with
// several users passes one with [WithCaller]; a gateway creates one from each request that it serves. A nil function
// means that this caller cannot be asked, or does not receive such messages.
//
// A Caller must not be modified once it is in use. For each connection, a Host keeps the last Caller, who receives what
// the server sends when no request is in flight. If a request is in flight, the context of the functions contains the
// values of its context. The functions may be called concurrently.
type Caller struct {
	// Session separates the state that servers keep for different sessions of one user. It is empty if the caller has
	// no session.
	Session string
	// Auth identifies the user. Nil means that the caller has not authenticated.
	Auth *auth.Info
	// Local says that the caller is the user of this machine, although the request is not authenticated, because the
	// program accepts nobody else.
	Local bool
	// Client is the name that the caller's program gives itself. Users who approve requests see it.
	Client string

	// Header contains headers of the caller's request for the servers that name them in ServerConfig.CallerHeaders.
	// They are secrets. A Host passes each header only to these servers.
	Header http.Header

	// Elicit, ElicitURL, Sample and Roots answer requests of servers, like the fields of client.Dialer. A function that
	// gets its answer in another round of the caller's request (2026-07-28) returns call.ErrInputRequired, which ends
	// the request to the server. Messages to users name the server.
	Elicit    func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error)
	Sample    func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	// SampleTools means that Sample supports tools.
	SampleTools bool
	Roots       func(ctx context.Context) ([]mcp.Root, error)

	// Log receives log messages from servers. Their logger names begin with the name of the server. It must not block.
	Log func(ctx context.Context, message mcp.LoggingMessageParams)
	// Notify receives notifications of extensions; see ServerConfig.Extensions. It must not block.
	Notify func(ctx context.Context, extension, method string, params json.RawMessage)
}

type callerKey struct{}

// WithCaller returns a context for requests on behalf of a caller. Set [Host.Callers] if callers answer questions:
// otherwise servers that share a connection are told that nobody can be asked.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerFrom returns the caller that WithCaller has set, or nil.
func callerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// principal returns who the caller is. For the user of this machine it is principal.Local.
func (c *Caller) principal() principal.Principal {
	switch {
	case c == nil:
		return principal.Anonymous
	case c.Auth != nil && c.Auth.Principal != principal.Anonymous:
		return c.Auth.Principal
	case c.Local:
		return principal.Local
	}
	return principal.Anonymous
}

// callerOf returns the caller of the request that ctx belongs to, for the policy and the audit log.
func callerOf(ctx context.Context) *auth.Info {
	if c := callerFrom(ctx); c != nil && c.Auth != nil {
		return c.Auth
	}
	if info := auth.FromContext(ctx); info != nil {
		return info
	}
	caller := new(auth.Info)
	if c := call.From(ctx); c != nil {
		caller.Principal = c.Principal()
	}
	return caller
}

// inputKinds is a set of kinds of requests of servers.
type inputKinds uint8

const (
	formInput inputKinds = 1 << iota
	urlInput
	samplingInput
	samplingToolsInput // also requires samplingInput
	rootsInput

	allInputKinds = rootsInput<<1 - 1
)

// inputKinds returns what the caller can be asked.
func (c *Caller) inputKinds() (kinds inputKinds) {
	if c == nil {
		return 0
	}
	return kindsOf(c.Elicit != nil, c.ElicitURL != nil, c.Sample != nil, c.SampleTools, c.Roots != nil)
}

func kindsOf(form, url, sampling, tools, roots bool) (kinds inputKinds) {
	for i, is := range []bool{form, url, sampling, sampling && tools, roots} {
		if is {
			kinds |= 1 << i
		}
	}
	return kinds
}

// capabilities returns the client capabilities for the kinds.
func (kinds inputKinds) capabilities() (c mcp.ClientCapabilities) {
	if kinds&(formInput|urlInput) != 0 {
		c.Elicitation = new(mcp.ElicitationCapability)
		if kinds&formInput != 0 {
			c.Elicitation.Form = &mcp.Supported{}
		}
		if kinds&urlInput != 0 {
			c.Elicitation.URL = &mcp.Supported{}
		}
	}
	if kinds&samplingInput != 0 {
		c.Sampling = new(mcp.SamplingCapability)
		if kinds&samplingToolsInput != 0 {
			c.Sampling.Tools = &mcp.Supported{}
		}
	}
	if kinds&rootsInput != 0 {
		c.Roots = new(mcp.RootsCapability)
	}
	return c
}

// ErrAnonymousCaller is returned for a request without an authenticated caller to a server with
// [ServerConfig.CallerAuth].
var ErrAnonymousCaller = errors.New("host: the server requires the credentials of the caller, and the caller is not " +
	"authenticated")
