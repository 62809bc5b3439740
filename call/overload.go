package call

import (
	"fmt"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
)

// OverloadError reports that a server did not serve a request because it has reached a limit.
// The same request may succeed later. Over HTTP the response has status 429 or 503 and the
// header Retry-After.
//
// A client returns the error on every wire: for a response with status 429 or 503, and for a
// JSON-RPC error with retryAfterMs in its data. Then Err is set.
type OverloadError struct {
	Limit      string        // the name of the limit, such as "requests in flight"
	RetryAfter time.Duration // how long the client should wait; a client gets at most 24 hours, and 0 if the server does not say
	Err        error         // the error of the response, a *StatusError or *jsonrpc.Error; nil on a server
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

// Wire returns the error for the client of a server: jsonrpc.CodeInternalError with limit and
// retryAfterMs, in milliseconds, in its data. The protocol defines no code for it.
func (e *OverloadError) Wire() *jsonrpc.Error {
	ms := (e.RetryAfter + time.Millisecond - 1).Milliseconds()
	data := jsonrpc.AppendString([]byte(`{"limit":`), e.Limit)
	data = strconv.AppendInt(append(data, `,"retryAfterMs":`...), ms, 10)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.text(), Data: append(data, '}')}
}

// Unwrap returns e.Err, or e.Wire() if e.Err is nil.
func (e *OverloadError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return e.Wire()
}
