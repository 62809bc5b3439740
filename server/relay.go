package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A gateway relays the messages of other servers to its client: their questions and log messages unchanged, and also
// after the call has ended, if the client has a session.

// InputCapabilities returns what a handler can ask the client of a call: its capabilities for elicitation, sampling and
// roots, as far as the call's revision supports them. They are empty if the call cannot ask (see [ErrCannotAsk]), and
// if ctx is not the context of a handler. For a method whose handlers cannot ask, they are the capabilities that the
// client declared, which other calls can use. The values must not be modified.
func InputCapabilities(ctx context.Context) mcp.ClientCapabilities {
	c := rpc.From(ctx)
	if c == nil {
		return mcp.ClientCapabilities{}
	}
	kinds := c.DeclaredInput()
	if rpc.MayRequestInput(c.Method()) {
		kinds = c.InputKinds()
	}
	declared := c.Peer().Capabilities
	var can mcp.ClientCapabilities
	switch kinds & (rpc.FormInput | rpc.URLInput) {
	case rpc.FormInput | rpc.URLInput:
		can.Elicitation = declared.Elicitation
	case rpc.FormInput:
		can.Elicitation = formsOnly
	case rpc.URLInput:
		can.Elicitation = urlsOnly
	}
	switch kinds & (rpc.SamplingInput | rpc.SamplingToolsInput) {
	case rpc.SamplingInput | rpc.SamplingToolsInput:
		can.Sampling = declared.Sampling
	case rpc.SamplingInput:
		can.Sampling = plainSampling
	}
	if kinds&rpc.RootsInput != 0 {
		can.Roots = declared.Roots
	}
	return can
}

var (
	formsOnly     = &mcp.ElicitationCapability{Form: &mcp.Supported{}}
	urlsOnly      = &mcp.ElicitationCapability{URL: &mcp.Supported{}}
	plainSampling = &mcp.SamplingCapability{}
)

// RequestInput passes a question from another server on to the client of a call, and returns the answer. Method is
// mcp.MethodElicit, mcp.MethodCreateMessage or mcp.MethodListRoots. Params is the params of that request, a JSON object
// or nil; fields that the client's revision does not know are removed. RequestInput does not check the answer. For your
// own questions, use [ElicitForm] and [Sample].
//
// If a server asks several questions in one *mcp.InputRequiredResult, and the functions of a client.Dialer or a
// host.Caller call RequestInput with the contexts they receive, the client gets the questions together.
//
// RequestInput returns the errors of [Ask], except for errors about an answer. It also returns call.ErrCallDone if the
// call ends meanwhile, because ctx may outlive it. Safe for concurrent use.
func RequestInput(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c := rpc.From(ctx)
	if c == nil {
		return nil, call.ErrNoCall
	}
	params, needed, err := relayParams(method, params)
	if err != nil {
		return nil, err
	}
	if err := c.CheckInput(needed); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Context(), func() { cancel(call.ErrCallDone) })()
	answer, err := c.ForwardInput(ctx, rpc.InputRequest{Method: method, Params: params})
	if err != nil && c.Context().Err() != nil && !errors.As(err, new(*call.AnswerError)) &&
		!errors.Is(err, call.ErrInputRequired) {
		err = call.ErrCallDone // and not the error of what the end of the context has interrupted
	}
	return answer, err
}

// relayParams returns the params of a question and what a client needs to answer it, or an error if it is no question.
func relayParams(method string, params json.RawMessage) (json.RawMessage, rpc.InputKinds, error) {
	params, err := objectOrNil(method, params)
	if err != nil {
		return nil, 0, err
	}
	needed := rpc.NeededInput(method, params)
	if needed == 0 {
		return nil, 0, fmt.Errorf("cannot ask the client: %.128q must be %s, %s or %s", method, mcp.MethodElicit,
			mcp.MethodCreateMessage, mcp.MethodListRoots)
	}
	return params, needed, nil
}

// Log passes a log message from another server on to the client of a call, if the client wants messages of this level.
// The data may be any JSON value. For your own messages, use [Logger]. Log returns call.ErrCallDone after the call has
// ended, and call.ErrNoCall if ctx is not the context of a handler. Safe for concurrent use. (2026-07-28,
// server/utilities/logging.)
func Log(ctx context.Context, message mcp.LoggingMessageParams) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	if err := checkLog(message); err != nil {
		return err
	}
	return c.Log(ctx, message.Level, message.Logger, message.Data)
}

// checkLog returns an error if a message cannot be sent.
func checkLog(message mcp.LoggingMessageParams) error {
	if !message.Level.Known() {
		return fmt.Errorf("log message: level must be one of %q", mcp.LoggingLevels())
	}
	if err := jsonrpc.Check(message.Data, jsonrpc.Limits{}); err != nil {
		return fmt.Errorf("log message: data must be a JSON value: %w", err)
	}
	return nil
}

// LogLevel returns the lowest level of log messages that the client of a call wants. It returns "" if the client wants
// none, and if ctx is not the context of a handler.
func LogLevel(ctx context.Context) mcp.LoggingLevel {
	if c := rpc.From(ctx); c != nil {
		return c.LogLevel
	}
	return ""
}

// Session is a session with a client of 2025-11-25 or earlier. It may be kept after the call, to send messages that
// belong to no call; they travel on the stream that the client has opened for them. A nil *Session sends nothing. A
// Session is safe for concurrent use.
type Session struct {
	id       string
	notifier rpc.SessionNotifier // nil for a task whose session may have ended
	level    mcp.LoggingLevel
	declared *mcp.ClientCapabilities
}

// SessionOf returns the session of a call; for a task, the session in which it was created. It returns nil in
// 2026-07-28, which has no sessions, and if ctx is not the context of a handler.
func SessionOf(ctx context.Context) *Session {
	c := rpc.From(ctx)
	if c == nil {
		return nil
	}
	id := c.Caller().Session
	if id == "" {
		return nil
	}
	return &Session{id, c.SessionNotifier, c.LogLevel, c.Peer().Capabilities}
}

// ID identifies the session on all replicas of the server. It is empty for a nil *Session. It is a secret, so do not
// log it.
func (s *Session) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Log sends a log message, if the client wanted its level when [SessionOf] was called; see [Log].
func (s *Session) Log(message mcp.LoggingMessageParams) error {
	if s == nil || s.notifier == nil || !s.level.Enables(message.Level) {
		return nil
	}
	if err := checkLog(message); err != nil {
		return err
	}
	s.notifier.Notify(rpc.AppendLog(nil, message.Level, message.Logger, message.Data))
	return nil
}

// Notify sends a notification; see [Notify]. If the client has no stream open, the notification waits for the next one.
// If too many wait, the oldest are dropped.
func (s *Session) Notify(method string, params json.RawMessage) error {
	if s == nil || s.notifier == nil {
		return nil
	}
	params, err := objectOrNil(method, params)
	if err != nil {
		return err
	}
	s.notifier.Notify(jsonrpc.AppendNotification(nil, method, params))
	return nil
}

// RequestInput is like the function [RequestInput], but belongs to no call: a server may request the roots whenever the
// session is open. It returns ErrCannotAsk if the client has no stream open for it.
func (s *Session) RequestInput(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if s == nil || s.notifier == nil || !s.notifier.Listens() {
		return nil, ErrCannotAsk
	}
	params, needed, err := relayParams(method, params)
	if err != nil {
		return nil, err
	}
	if err := rpc.MissingInput(s.declared, needed); err != nil {
		return nil, err
	}
	return s.notifier.RequestInput(ctx, rpc.InputRequest{Method: method, Params: params})
}
