package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// withCaller returns the context of requests to servers on behalf of the client whose call ctx belongs to. Questions
// that a server asks in the meantime go to that client.
func (g *Gateway) withCaller(ctx context.Context) context.Context {
	c := call.From(ctx)
	if c == nil { // a subscription
		return host.WithCaller(ctx, &host.Caller{Auth: &auth.Info{Principal: server.PrincipalOf(ctx)}})
	}
	session := server.SessionOf(ctx)
	caller := &host.Caller{Session: session.ID(), Auth: auth.FromContext(ctx), Client: c.Peer().Info.Name,
		Header: server.HeaderOf(ctx)}
	if caller.Auth == nil && c.Principal() != principal.Anonymous {
		caller.Auth = &auth.Info{Principal: c.Principal()}
	}
	caller.Local = caller.Auth == nil && g.LocalUser != nil && g.LocalUser(ctx)
	relay := withoutSession
	if session != nil {
		relay = clientSession{session, c.Peer().Capabilities}.functions()
	}
	caller.Log, caller.Notify = relay.log, relay.notify
	can := server.InputCapabilities(ctx)
	if can.Elicitation.SupportsForm() {
		caller.Elicit = askForm
	}
	if can.Elicitation.SupportsURL() {
		caller.ElicitURL = relay.url
	}
	if can.Sampling != nil {
		caller.Sample, caller.SampleTools = askSample, can.Sampling.Tools != nil
	}
	if can.Roots != nil {
		caller.Roots = relay.roots
	}
	return host.WithCaller(ctx, caller)
}

// errNoCall is the response to a request of a server that belongs to no call of a client.
var errNoCall = jsonrpc.Errorf(jsonrpc.CodeInternalError,
	"cannot forward the request: it belongs to no call that is in flight")

func askForm(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return ask[mcp.ElicitResult](ctx, mcp.MethodElicit, form)
}

func askSample(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return ask[mcp.CreateMessageResult](ctx, mcp.MethodCreateMessage, params)
}

// ask sends a question of a server to the client whose call ctx belongs to.
func ask[Result any](ctx context.Context, method string, params any) (*Result, error) {
	raw, err := schema.Marshal(params)
	if err != nil {
		return nil, err
	}
	return answered[Result](server.RequestInput(ctx, method, raw))
}

// answered decodes the answer of a client.
func answered[Result any](answer json.RawMessage, err error) (*Result, error) {
	switch {
	case errors.Is(err, call.ErrNoCall):
		return nil, errNoCall
	case errors.Is(err, call.ErrCancelled): // the client has disconnected
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", err)
	case err != nil:
		return nil, err
	}
	result := new(Result)
	if err := schema.Decode(answer, result); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the client's answer is invalid: %s", err)
	}
	return result, nil
}

// clientSession is the session of a client, which receives messages that belong to none of its calls. It does not refer
// to a call, because a Host keeps it longer.
type clientSession struct {
	session  *server.Session // nil without a session
	declared *mcp.ClientCapabilities
}

// relayFunctions contains the functions of a host.Caller that need the session.
type relayFunctions struct {
	log    func(context.Context, mcp.LoggingMessageParams)
	notify func(ctx context.Context, id, method string, params json.RawMessage)
	url    func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)
	roots  func(context.Context) ([]mcp.Root, error)
}

// withoutSession contains the functions for a call without a session, made once.
var withoutSession = clientSession{}.functions()

func (s clientSession) functions() relayFunctions {
	return relayFunctions{s.log, s.notify, s.askURL, s.roots}
}

// roots requests the roots of the client. A server may request them for its session during a call, and even after it.
func (s clientSession) roots(ctx context.Context) ([]mcp.Root, error) {
	var params json.RawMessage
	if name := host.AskingServer(ctx); name != "" {
		params = append(jsonrpc.AppendString([]byte(`{"_meta":{"`+host.MetaServer+`":`), name), "}}"...)
	}
	answer, err := server.RequestInput(ctx, mcp.MethodListRoots, params)
	ended := errors.Is(err, call.ErrNoCall) || errors.Is(err, call.ErrCallDone) || errors.Is(err, call.ErrCancelled)
	if ended && ctx.Err() == nil {
		later, failed := s.session.RequestInput(ctx, mcp.MethodListRoots, params)
		if !errors.Is(failed, server.ErrCannotAsk) {
			answer, err = later, failed
		}
	}
	result, err := answered[mcp.ListRootsResult](answer, err)
	if err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// askURL forwards an elicitation by URL, and its completion.
func (s clientSession) askURL(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	params := *request
	if c := call.From(ctx); c != nil && c.Revision() == mcp.V20251125 { // the only revision with IDs
		params.ElicitationID = rand.Text() // IDs of different servers could be equal
		// cannot fail: it contains only strings
		completed, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: params.ElicitationID})
		client.OnElicitationComplete(ctx, func() {
			s.send(ctx, mcp.NotificationElicitationComplete, completed)
		})
	}
	return ask[mcp.ElicitResult](ctx, mcp.MethodElicit, &params)
}

// send sends a notification to the client in the call of ctx or, if the call has ended, in its session. No call
// depends on whether it arrives.
func (s clientSession) send(ctx context.Context, method string, params json.RawMessage) {
	ctx = context.WithoutCancel(ctx) // ctx may end before the call
	if err := server.Notify(ctx, method, params); err != nil {
		_ = s.session.Notify(method, params)
	}
}

// log sends a log message of a server to the client, at the level that the client wants.
func (s clientSession) log(ctx context.Context, message mcp.LoggingMessageParams) {
	err := server.Log(context.WithoutCancel(ctx), message)
	if errors.Is(err, call.ErrNoCall) || errors.Is(err, call.ErrCallDone) {
		_ = s.session.Log(message)
	}
}

// notify sends a notification of an extension of a server to a client that declares the extension.
func (s clientSession) notify(ctx context.Context, id, method string, params json.RawMessage) {
	if c := call.From(ctx); c != nil {
		if _, declared := c.Extension(id); declared {
			_ = server.Notify(context.WithoutCancel(ctx), method, params)
		}
		return
	}
	if s.session == nil {
		return
	}
	settings, ok := s.declared.Extensions[id]
	if !ok {
		settings = s.declared.Experimental[id]
	}
	if len(settings) > 0 && settings[0] == '{' {
		_ = s.session.Notify(method, params)
	}
}
