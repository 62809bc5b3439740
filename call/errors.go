package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The errors of requests. An error that the server reports is a *jsonrpc.Error instead.
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
	// ErrResourceNotFound means that a resource does not exist. A resource handler returns it, wrapped or not, and a
	// client returns it if the server reports it, whatever code the revision uses.
	ErrResourceNotFound = errors.New("resource not found")
)

// The errors of functions that a server's handler calls.
var (
	// ErrCallDone is returned by the functions that send messages for a call, such as
	// server.Progress, after its handler has returned or its client has cancelled it.
	ErrCallDone = errors.New("the call has ended: its handler has returned or the client has cancelled it")
	// ErrNoCall is returned by the functions that need the context of a handler for any other
	// context.
	ErrNoCall = errors.New("context carries no call: pass the context that the handler received")
	// ErrInputRequired is returned in 2026-07-28 by a question that the client has not answered yet; the handler's
	// context ends with the same cause. The handler must return, and runs again from its beginning when the answer has
	// arrived. The client does not see the error.
	ErrInputRequired = errors.New("the call waits for the client's input: return, and the handler runs again")
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

// SilentError reports a connection that was closed because nothing arrived on it, not even keep-alive messages. It
// wraps ErrConnectionLost.
type SilentError struct {
	After time.Duration // since the last message arrived
}

// Error implements the error interface.
func (e *SilentError) Error() string {
	return fmt.Sprintf("%s: the peer sent nothing for %v", ErrConnectionLost, e.After.Round(time.Millisecond))
}

// Unwrap returns ErrConnectionLost.
func (e *SilentError) Unwrap() error { return ErrConnectionLost }

// StatusError reports an HTTP response with a status other than success. If the body contains a JSON-RPC error,
// errors.As finds it.
type StatusError struct {
	Status int // such as 503
	// of the status, such as "Service Unavailable", with the target of a redirect; may be empty
	Text       string
	RetryAfter time.Duration  // from the Retry-After header, at most 24 hours; 0 if the server sent none
	Err        *jsonrpc.Error // from the body; nil if the body contains no JSON-RPC error
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
	Method string // method of the server's request
	Err    *jsonrpc.Error
}

// Error implements the error interface.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: the client answered with an error: %s", e.Method, e.Err)
}

// OverloadError reports that a server did not serve a request because it has reached a limit.
// The same request may succeed later. Over HTTP the response has status 429 or 503 and the
// header Retry-After.
//
// A client returns it for a response with status 429 or 503, and for a JSON-RPC error with retryAfterMs in its data.
// Then Err is set.
type OverloadError struct {
	Limit string // name of the limit, such as "requests in flight"
	// how long the client should wait; a client gets at most 24 hours, and 0 if the server does not say
	RetryAfter time.Duration
	Err        error // error of the response, a *StatusError or *jsonrpc.Error; nil on a server
}

// Error returns the text of Err, or the limit and the time if Err is nil.
func (e *OverloadError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.text()
}

func (e *OverloadError) text() string {
	return fmt.Sprintf("too many %s: try again in %v", e.Limit, e.RetryAfter)
}

// Unwrap returns Err. If it is nil, it returns the *jsonrpc.Error for the client of a server: jsonrpc.CodeInternalError
// with limit and retryAfterMs, in milliseconds, in its data. The protocol defines no code for it.
func (e *OverloadError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	ms := (e.RetryAfter + time.Millisecond - 1).Milliseconds()
	data := jsonrpc.AppendString([]byte(`{"limit":`), e.Limit)
	data = strconv.AppendInt(append(data, `,"retryAfterMs":`...), ms, 10)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.text(), Data: append(data, '}')}
}

// URLRequiredError is the error of a server's handler that needs its user to open some URLs
// first. The handler must return it before it does any work, because the client repeats the
// call.
//
// In 2025-11-25 the client receives the error URLElicitationRequired. In 2026-07-28, which has
// no such error, the client is asked to have the user open the URLs, and the handler runs again
// (both: client/elicitation). A task of either revision and a parked call ask for the URLs, too, and
// the handler runs again when Done of all URLs has returned, up to 5 times. Clients of earlier
// revisions receive an error with the URLs as text.
type URLRequiredError struct {
	URLs []RequiredURL // 1 to 8
}

// RequiredURL is a URL that the user must open; see [URLRequiredError].
type RequiredURL struct {
	URL     string // a URL that mcp.ParseElicitURL accepts
	Message string // tells the user why
	ID      string // the elicitation id in 2025-11-25; empty for a random one
	// Done reports whether the user has finished. In 2025-11-25 the server calls it repeatedly
	// after the call has ended, until it returns true or an error, and then notifies the
	// client. Its context has the values of the call's context and ends with the session. The
	// server calls at most 16 functions of a session and 1,024 in all at a time; for further
	// URLs the client is not notified. If Done is nil, the client is not notified. In a task or
	// parked call the server calls Done after the user has agreed to open the URL, and does not
	// notify the client.
	Done func(ctx context.Context) (bool, error)
	// Within limits how long Done is called. 0 means 5 minutes; the maximum is one hour.
	Within time.Duration
}

// Error implements the error interface.
func (e *URLRequiredError) Error() string {
	var all []string
	for _, u := range e.URLs {
		all = append(all, fmt.Sprintf("%s (%s)", u.URL, u.Message))
	}
	return "the user must open " + strings.Join(all, ", ") + " first; then repeat the call"
}
