package host

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/forms"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/store"
)

// errNoCall is the response to a request of a server that belongs to no call of a client.
var errNoCall = jsonrpc.Errorf(jsonrpc.CodeInternalError,
	"cannot forward the request: it belongs to no call that is in flight")

// errRepeated is the response to a request of a server while a prompt or resource is requested in
// 2026-07-28. The request to the server is cancelled, and repeated with the answer.
var errRepeated = jsonrpc.Errorf(jsonrpc.CodeInternalError, "the request is cancelled, and repeated with the answer")

const (
	maxFormAttempts = 3   // how often a user may answer one form, as in server.Ask
	maxFormReason   = 500 // bytes of the reason for which an answer is rejected
)

// forwardElicit sends a form to the client. A form whose answer does not match it is sent again, with the reason.
func (s *supervisor) forwardElicit(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	fields, err := forms.Parse(form.RequestedSchema)
	if err != nil {
		return nil, err
	}
	message := s.host.attribute(s.name, form.Message)
	params := &mcp.ElicitParams{Message: message, RequestedSchema: form.RequestedSchema}
	params.Meta = s.attributedMeta(form.Meta)
	for attempt := 2; ; attempt++ {
		result, err := ask[mcp.ElicitResult](ctx, rpc.FormInput, mcp.MethodElicit, params)
		if err != nil || result.Action != mcp.ElicitAccept {
			return result, err
		}
		_, unfit := fields.Complete(result.Content)
		switch {
		case unfit == nil:
			return result, nil
		case attempt > maxFormAttempts:
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the client's answer is invalid: %s", unfit)
		}
		params.Message = fmt.Sprintf("%s\n\nPlease answer again (attempt %d of %d): %s", message, attempt,
			maxFormAttempts, cut(unfit.Error(), maxFormReason, plain))
	}
}

func (s *supervisor) forwardElicitURL(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	params := &mcp.ElicitParams{Mode: mcp.ElicitModeURL, Message: s.host.attribute(s.name, request.Message),
		URL: request.URL}
	params.Meta = s.attributedMeta(request.Meta)
	if c := rpc.From(ctx); c != nil && c.Can(revision.ElicitationIDs) {
		params.ElicitationID = rand.Text() // ids of servers could be equal
		if completion := outbound.CompletionOf(ctx); completion != nil {
			// has only strings
			completed, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: params.ElicitationID})
			// The user has finished even if the client cannot be notified.
			completion.Then(func() { _ = c.Notify(c.Context(), mcp.NotificationElicitationComplete, completed) })
			inputsOf(ctx).add(completion, completedLater(c.SessionNotifier, completed))
		}
	}
	return ask[mcp.ElicitResult](ctx, rpc.URLInput, mcp.MethodElicit, params)
}

// completedLater returns a function that notifies the client of a session of the end of a URL elicitation, after the
// call for which it was asked.
func completedLater(session rpc.SessionNotifier, params []byte) func() {
	return func() {
		if session != nil {
			session.Notify(jsonrpc.AppendNotification(nil, mcp.NotificationElicitationComplete, params))
		}
	}
}

func (s *supervisor) forwardSample(ctx context.Context,
	request *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	params, kinds := *request, rpc.SamplingInput
	params.Meta, params.Task = s.attributedMeta(request.Meta), nil
	if !s.host.hidden() {
		params.IncludeContext = "" // to the client, the context of this server is that of all servers of the Host
	}
	if params.UsesTools() {
		kinds |= rpc.SamplingToolsInput
	}
	return ask[mcp.CreateMessageResult](ctx, kinds, mcp.MethodCreateMessage, &params)
}

func (s *supervisor) forwardRoots(ctx context.Context) ([]mcp.Root, error) {
	var params any
	if meta := s.attributedMeta(nil); meta != nil {
		params = &mcp.EmptyParams{ParamsBase: mcp.ParamsBase{Meta: meta}}
	}
	result, err := ask[mcp.ListRootsResult](ctx, rpc.RootsInput, mcp.MethodListRoots, params)
	if err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// ask sends an input request to the client whose call ctx belongs to, which must support the kinds. It
// returns a *jsonrpc.Error that is for the server.
func ask[Result any](ctx context.Context, kinds rpc.InputKinds, method string, params any) (*Result, error) {
	c, session := rpc.From(ctx), sessionOf(ctx)
	q, missing := rpc.InputRequest{Method: method}, rpc.InputKinds(0)
	switch {
	case c != nil:
		missing = kinds &^ c.InputKinds()
	case session != nil && method == mcp.MethodListRoots:
		missing = kinds &^ session.declaredInput()
	default:
		return nil, errNoCall
	}
	if missing != 0 {
		return nil, unsupported(method, missing)
	}
	if params != nil {
		var err error
		if q.Params, err = schema.Marshal(params); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return answered[Result](session.requestInput(ctx, q))
	}
	during, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Context(), func() { cancel(call.ErrCallDone) })() // ctx may belong to several calls
	answer, err := c.ForwardInput(during, q)
	if err != nil && c.Context().Err() != nil && !errors.As(err, new(*call.AnswerError)) &&
		!errors.Is(err, rpc.ErrInputRequired) {
		err = call.ErrCallDone // and not the error of what the end of the context has interrupted
	}
	ended := errors.Is(err, call.ErrCallDone) || errors.Is(err, rpc.ErrClientLeft)
	if n := c.SessionNotifier; method == mcp.MethodListRoots && ended && ctx.Err() == nil && n != nil && n.Listens() {
		// The server may have requested the roots for its session while the call was in flight.
		answer, err = n.RequestInput(ctx, q)
	}
	return answered[Result](answer, err)
}

// answered decodes the answer of a client. It returns a *jsonrpc.Error that is for the server.
func answered[Result any](answer json.RawMessage, err error) (*Result, error) {
	switch rejected, ok := errors.AsType[*call.AnswerError](err); {
	case ok:
		return nil, rejected.Err
	case errors.Is(err, rpc.ErrInputRequired):
		return nil, errRepeated
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

// unsupported returns the error for a server whose request the client of the call does not support. It
// is that of a client without the capability (2025-11-25, client/elicitation, Error Handling;
// client/roots, Error Handling).
func unsupported(method string, missing rpc.InputKinds) error {
	code := int64(jsonrpc.CodeMethodNotFound)
	if missing&(rpc.FormInput|rpc.URLInput|rpc.SamplingToolsInput) != 0 && missing&rpc.SamplingInput == 0 {
		code = jsonrpc.CodeInvalidParams
	}
	return jsonrpc.Errorf(code, "%s: the client of this call does not support it", method)
}

// forwardLog sends a log message of a server to the client whose call ctx belongs to, at the level that
// the client wants.
func (s *supervisor) forwardLog(ctx context.Context, message mcp.LoggingMessageParams) {
	c := rpc.From(ctx)
	if c == nil || !c.Logs(message.Level) {
		return
	}
	name, data := forwardedLog(s.name, &message)
	// The call does not depend on its log messages.
	_ = c.Log(c.Context(), message.Level, name, data)
}

// forwardedLog returns the name of the logger and the data of a message that is forwarded.
func forwardedLog(server string, message *mcp.LoggingMessageParams) (name string, data json.RawMessage) {
	name = server
	if message.Logger != "" {
		name += "." + message.Logger
	}
	if message.Data == nil {
		return name, json.RawMessage("null")
	}
	return name, message.Data
}

// clients has functions of package client that are not exported.
var clients = link.Get[link.Client[client.Client, client.CallOption]]()

// The functions of package link for the gateway.
func init() {
	link.Set(link.Host[Host, ServerStatus, Request, Kind]{
		Forward:            (*Host).setForwarding,
		CallerStatus:       (*Host).callerStatus,
		WatchCaller:        (*Host).watchCaller,
		OutdateCallers:     (*Host).outdateCallers,
		PermitSubscription: (*Host).permitSubscription,
		PolicyChanges:      (*Host).policyChanges,
		Hides:              (*Host).hides,
		ToolsVersion:       (*Host).toolsVersion,
		Withheld:           (*Host).recordWithheld,
		Attribute:          (*Host).attribute,
	})
}

// setForwarding makes the Host send the requests of servers for which the dialer has no function to the client whose
// request a handler of a server.Server serves, if it supports them, and log messages at the level that it has chosen. A
// server receives an error if the client does not support its request, or if no call of a client is known to be its
// cause. A request for roots without a call is sent on the session of the client, if that is known; see
// [ServerConfig.PerCaller]. Messages to users name the server; see attribute.
func (h *Host) setForwarding(storage func() (store.Store, [][]byte)) error {
	switch {
	case h.forwards: // for another gateway
		return nil
	case h.ctx != nil:
		return errors.New("the host must not be started before its first gateway is made")
	}
	h.forwards, h.storage = true, storage
	return nil
}
