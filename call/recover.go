package call

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// RecoverCalls returns middleware that turns a panic of the middleware and handlers that it
// wraps into a *PanicError, and logs the panic with its stack. A nil logger means
// slog.Default().
//
// A server recovers from panics without it; RecoverCalls lets middleware outside of it see the
// error. On a client, whose middleware runs in the caller's goroutine, it keeps a panic from
// ending the program.
func RecoverCalls(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (result any, err error) {
			defer func() {
				if v := recover(); v != nil {
					logger.ErrorContext(ctx, "panic in a call", "method", c.Method(), "panic", v, "stack", string(debug.Stack()))
					result, err = nil, &PanicError{Method: c.Method(), Value: v}
				}
			}()
			return next(ctx, c)
		}
	}
}
