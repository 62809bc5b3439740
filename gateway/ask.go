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
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// withCaller returns the context of requests to servers on behalf of the client whose call has ctx. What a server asks
// meanwhile, the client is asked.
func (g *Gateway) withCaller(ctx context.Context) context.Context {
	c := rpc.From(ctx)
	if c == nil { // a subscription
		return host.WithCaller(ctx, &host.Caller{Auth: &auth.Info{Principal: server.PrincipalOf(ctx)}})
	}
	from := c.Caller()
	caller := &host.Caller{Session: from.Session, Auth: auth.FromContext(ctx)}
	if caller.Auth == nil && c.Principal() != principal.Anonymous {
		caller.Auth = &auth.Info{Principal: c.Principal()}
	}
	caller.Local = caller.Auth == nil && g.LocalUser != nil && g.LocalUser(ctx)
	if c.Peer().Info != nil {
		caller.Client = c.Peer().Info.Name
	}
	session := ofCall
	if c.SessionNotifier != nil {
		session = newSession(c)
	}
	caller.Log, caller.Notify = session.log, session.notify
	kinds := c.DeclaredInput()
	if rpc.MayRequestInput(c.Method()) {
		kinds = c.InputKinds()
	}
	if kinds&rpc.FormInput != 0 {
		caller.Elicit = askForm
	}
	if kinds&rpc.URLInput != 0 {
		caller.ElicitURL = session.url
	}
	if kinds&rpc.SamplingInput != 0 {
		caller.Sample, caller.SampleTools = askSample, kinds&rpc.SamplingToolsInput != 0
	}
	if kinds&rpc.RootsInput != 0 {
		caller.Roots = session.roots
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

// ask sends an input request to the client whose call ctx belongs to.
func ask[Result any](ctx context.Context, method string, params any) (*Result, error) {
	c := rpc.From(ctx)
	if c == nil {
		return nil, errNoCall
	}
	q, err := questionOf(method, params)
	if err != nil {
		return nil, err
	}
	return answered[Result](during(ctx, c, q))
}

func questionOf(method string, params any) (q rpc.InputRequest, err error) {
	q.Method = method
	if params != nil {
		q.Params, err = schema.Marshal(params)
	}
	return q, err
}

// during sends an input request while the call is in flight. Ctx may outlive the call.
func during(ctx context.Context, c *rpc.Call, q rpc.InputRequest) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Context(), func() { cancel(call.ErrCallDone) })()
	answer, err := c.ForwardInput(ctx, q)
	if err != nil && c.Context().Err() != nil && !errors.As(err, new(*call.AnswerError)) &&
		!errors.Is(err, call.ErrInputRequired) {
		err = call.ErrCallDone // and not the error of what the end of the context has interrupted
	}
	return answer, err
}

// answered decodes the answer of a client.
func answered[Result any](answer json.RawMessage, err error) (*Result, error) {
	switch {
	case errors.Is(err, rpc.ErrClientLeft):
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

// clientSession is the session of a client, which receives what belongs to none of its calls. It has no call, because a
// Host keeps it longer.
type clientSession struct {
	notifier rpc.SessionNotifier // nil without a session
	level    mcp.LoggingLevel
	declared *mcp.ClientCapabilities
}

// sessionFunctions are the functions of a host.Caller that need the session.
type sessionFunctions struct {
	log    func(context.Context, mcp.LoggingMessageParams)
	notify func(ctx context.Context, id, method string, params json.RawMessage)
	url    func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)
	roots  func(context.Context) ([]mcp.Root, error)
}

// ofCall has the functions for a call without a session, made once.
var ofCall = clientSession{}.functions()

func newSession(c *rpc.Call) sessionFunctions {
	return clientSession{c.SessionNotifier, c.LogLevel, c.Peer().Capabilities}.functions()
}

func (s clientSession) functions() sessionFunctions {
	return sessionFunctions{s.log, s.notify, s.askURL, s.roots}
}

// roots requests the roots of the client. A server may do it for its session while a call is in flight, and may do it
// after the call.
func (s clientSession) roots(ctx context.Context) ([]mcp.Root, error) {
	var params any
	if name := host.AskingServer(ctx); name != "" {
		meta := mcp.Meta{host.MetaServer: json.RawMessage(jsonrpc.AppendString(nil, name))}
		params = &mcp.EmptyParams{ParamsBase: mcp.ParamsBase{Meta: meta}}
	}
	if c := rpc.From(ctx); c == nil && s.notifier == nil {
		return nil, errNoCall
	}
	q, err := questionOf(mcp.MethodListRoots, params)
	if err != nil {
		return nil, err
	}
	var answer json.RawMessage
	ended := true
	if c := rpc.From(ctx); c != nil {
		answer, err = during(ctx, c, q)
		ended = errors.Is(err, call.ErrCallDone) || errors.Is(err, rpc.ErrClientLeft)
	}
	if ended && ctx.Err() == nil && s.notifier != nil && s.notifier.Listens() {
		answer, err = s.notifier.RequestInput(ctx, q)
	} else if ended && err == nil {
		err = errNoCall
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
	if c := rpc.From(ctx); c != nil && c.Can(revision.ElicitationIDs) {
		params.ElicitationID = rand.Text() // ids of servers could be equal
		// has only strings
		completed, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: params.ElicitationID})
		client.OnElicitationComplete(ctx, func() {
			// The user has finished even if the client cannot be notified.
			if c.Notify(c.Context(), mcp.NotificationElicitationComplete, completed) != nil && s.notifier != nil {
				s.notifier.Notify(jsonrpc.AppendNotification(nil, mcp.NotificationElicitationComplete, completed))
			}
		})
	}
	return ask[mcp.ElicitResult](ctx, mcp.MethodElicit, &params)
}

// log sends a log message of a server to the client, at the level that the client wants.
func (s clientSession) log(ctx context.Context, message mcp.LoggingMessageParams) {
	if c := rpc.From(ctx); c != nil {
		if c.Logs(message.Level) {
			_ = c.Log(c.Context(), message.Level, message.Logger, message.Data) // the call does not depend on it
			return
		}
		if c.Context().Err() == nil {
			return
		}
	}
	if s.notifier != nil && s.level.Enables(message.Level) {
		s.notifier.Notify(rpc.AppendLog(nil, message.Level, message.Logger, message.Data))
	}
}

// notify sends a notification of an extension of a server to a client that declares the extension.
func (s clientSession) notify(ctx context.Context, id, method string, params json.RawMessage) {
	if c := rpc.From(ctx); c != nil {
		if _, declared := c.Extension(id); declared {
			_ = c.Notify(c.Context(), method, params) // the call does not depend on it
		}
		return
	}
	if s.notifier == nil {
		return
	}
	settings, ok := s.declared.Extensions[id]
	if !ok {
		settings = s.declared.Experimental[id]
	}
	if len(settings) > 0 && settings[0] == '{' {
		s.notifier.Notify(jsonrpc.AppendNotification(nil, method, params))
	}
}
