package outbound

import (
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// ErrUnserved is wrapped by the error of a Wire if the peer rejected a request, or the HTTP request that carried it,
// before acting on it.
var ErrUnserved = errors.New("request rejected")

// Rejected is the error of a request that the peer rejected before acting on it. A Wire returns it if it can tell,
// for example by an HTTP status.
type Rejected struct{ Err *jsonrpc.Error }

// Error implements the error interface.
func (e *Rejected) Error() string { return e.Err.Error() }

// Unwrap returns the error that the peer reports, and ErrUnserved.
func (e *Rejected) Unwrap() []error { return []error{e.Err, ErrUnserved} }

// provesUnserved reports whether the error of one exchange, which the Wire or this side has returned, proves that the
// peer has not acted on the request: not a byte of it was sent, or the peer rejected it, before dispatch, with an
// HTTP status. The response to a request proves nothing, whatever its code: a tool can fail with any code.
func provesUnserved(err error) bool {
	if errors.Is(err, call.ErrNotSent) || errors.Is(err, call.ErrUnauthorized) || errors.Is(err, ErrUnserved) {
		return true
	}
	status, ok := errors.AsType[*call.StatusError](err)
	return ok && 400 <= status.Status && status.Status < 500 && status.Status != 408
}

// ifUnsent returns err if the peer has not received the request, and otherwise nil.
func ifUnsent(err error) error {
	if errors.Is(err, call.ErrNotSent) {
		return err
	}
	return nil
}

// endedError is why a connection has ended. On the same connection, a request will never be sent: middleware that
// repeats requests leaves this one to the client, which reconnects (see call.RetryRequests).
type endedError struct{ error }

func (e endedError) Unwrap() error { return e.error }

// ConnectionEnded marks the error.
func (endedError) ConnectionEnded() {}

// unsent adds call.ErrNotSent to the cause why a request was not sent.
func unsent(cause error) error { return fmt.Errorf("%w: %w", call.ErrNotSent, cause) }
