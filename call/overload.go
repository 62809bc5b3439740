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
type OverloadError struct {
	Limit      string        // what the server has too many of, such as "requests in flight"
	RetryAfter time.Duration // how long the client should wait
}

// Error implements the error interface.
func (e *OverloadError) Error() string {
	return fmt.Sprintf("too many %s: try again in %v", e.Limit, e.RetryAfter)
}

// Wire returns the error for the client: jsonrpc.CodeInternalError with retryAfterMs, in
// milliseconds, in its data. The protocol defines no code for it.
func (e *OverloadError) Wire() *jsonrpc.Error {
	ms := (e.RetryAfter + time.Millisecond - 1).Milliseconds()
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInternalError,
		Message: e.Error(),
		Data:    []byte(`{"retryAfterMs":` + strconv.FormatInt(ms, 10) + `}`),
	}
}

// Unwrap returns e.Wire().
func (e *OverloadError) Unwrap() error { return e.Wire() }
