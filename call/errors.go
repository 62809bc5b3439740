package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of a client's requests. An error that the server reports is a *jsonrpc.Error instead.
var (
	// ErrConnectionLost means that the connection ended before the response arrived. The server
	// may have acted on the request, so repeat it only if that does no harm; see
	// [RetryRequests].
	ErrConnectionLost = errors.New("connection lost before the response came")
	// ErrClosed means that this program has closed the connection.
	ErrClosed = errors.New("connection closed")
	// ErrInvalidResponse means that the protocol does not allow the response. The error that
	// wraps it gives the reason.
	ErrInvalidResponse = errors.New("invalid response")
	// ErrRevision means that client and server have no revision of the protocol in common.
	ErrRevision = errors.New("no common protocol revision")
	// ErrUnauthorized means that the server requires credentials that could not be obtained.
	// The server has not acted on the request. The error that wraps it gives the reason.
	ErrUnauthorized = errors.New("not authorized")
	// ErrNotSent means that the request was not sent, so the server cannot have acted on it. It
	// is wrapped together with the reason: one of the errors above or the error of a context.
	ErrNotSent = errors.New("request not sent")
	// ErrSubscriptionEnded means that the server has ended a subscription. The client may open
	// it again.
	ErrSubscriptionEnded = errors.New("the server ended the subscription")
)

// Errors of the functions that a server's handler calls.
var (
	// ErrCallDone is returned by the functions that send messages for a call, such as
	// server.Progress, after its handler has returned or its client has cancelled it.
	ErrCallDone = errors.New("the call has ended: its handler has returned or the client has cancelled it")
	// ErrNoCall is returned by the functions that need the context of a handler for any other
	// context.
	ErrNoCall = errors.New("context carries no call: pass the context that the handler received")
	// ErrCancelled is the cause of a handler's context (context.Cause) when the client cancels
	// the request.
	ErrCancelled = errors.New("request cancelled by the client")
)

// TimeoutError reports that no response came in time. It matches context.DeadlineExceeded with
// errors.Is.
type TimeoutError struct {
	Method string
	After  time.Duration // since the request was sent or last reported progress
}

// Error implements the error interface.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: no response within %v: set a longer time-out or request less", e.Method, e.After)
}

// Is reports whether target is context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// SilentError reports a connection that was closed because nothing arrived on it, keep-alive
// messages included. It wraps ErrConnectionLost.
type SilentError struct {
	For time.Duration // since the last message arrived
}

// Error implements the error interface.
func (e *SilentError) Error() string {
	return fmt.Sprintf("%s: the peer sent nothing for %v", ErrConnectionLost, e.For.Round(time.Millisecond))
}

// Unwrap returns ErrConnectionLost.
func (e *SilentError) Unwrap() error { return ErrConnectionLost }

// StatusError reports an HTTP response with a status other than success. If the body has a
// JSON-RPC error, errors.As finds it.
type StatusError struct {
	Status     int            // such as 503
	Text       string         // of the status, such as "Service Unavailable", with the target of a redirect; may be empty
	RetryAfter time.Duration  // from the Retry-After header, at most 24 hours; 0 if the server sent none
	Err        *jsonrpc.Error // from the body; nil if the body has no JSON-RPC error
}

// Error implements the error interface.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP status %d", e.Status)
	if e.Text != "" {
		text += " " + e.Text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns e.Err.
func (e *StatusError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return e.Err
}

// CapabilityError reports that the client has not declared a capability that the server's
// handler needs. The handler may continue without the capability, or return the error. A client
// of 2026-07-28 then receives mcp.CodeMissingCapability. Other clients receive the text.
type CapabilityError struct {
	Required mcp.ClientCapabilities
}

// Error implements the error interface.
func (e *CapabilityError) Error() string {
	raw, _ := json.Marshal(e.Required)
	return fmt.Sprintf("the client must declare the capabilities %s", raw)
}

// AnswerError reports that a client answered a server's request, such as an elicitation, with
// an error. When a handler returns it, the client receives an internal error, not the error
// that it sent.
type AnswerError struct {
	Method string // of the server's request
	Err    *jsonrpc.Error
}

// Error implements the error interface.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: the client answered with an error: %s", e.Method, e.Err)
}

// PanicError is the error that [RecoverCalls] returns for a panic. A server's client receives
// an internal error without its text.
type PanicError struct {
	Method string
	Value  any // the argument of panic
}

// Error implements the error interface.
func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Method, e.Value) }
