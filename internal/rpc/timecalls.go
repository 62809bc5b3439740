package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Timing is one call, or request, that is over.
type Timing struct {
	Method string
	Name   string // what it names, a tool, a prompt or a URI, cut at 128 bytes; may be empty
	Took   time.Duration
	// Outcome is "ok", "failed" for a tool that reports failure, "input required",
	// "cancelled", "error" and a code of the protocol, "capability missing", "internal
	// error" or "panic".
	Outcome string
}

// TimeCalls is middleware that tells how long calls take: on a server each call, on a
// client each request with all it takes. Report runs in the goroutine of the call, which
// waits for it, and concurrently for others.
func TimeCalls(report func(ctx context.Context, t Timing)) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) Outcome {
			t := Timing{Method: c.Method, Name: c.nameForLog(), Outcome: "panic"}
			begin := time.Now()
			defer func() {
				t.Took = time.Since(begin)
				report(ctx, t)
			}()
			out := next(ctx, c)
			t.Outcome, _ = outcomeForLog(ctx, out)
			return out
		}
	}
}

// RecoverCalls is middleware that makes an error of a panic in what it wraps: further
// middleware, and handlers. Servers contain panics by themselves; with it, the
// middleware outside of it sees an outcome, and on a client, whose requests run in the
// caller's goroutine, a panic of its middleware ends no program. The panic goes to the
// log with its stack; logger nil: slog.Default().
func RecoverCalls(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (out Outcome) {
			defer func() {
				if v := recover(); v != nil {
					logger.ErrorContext(ctx, "panic in a call", "method", c.Method, "panic", v, "stack", string(debug.Stack()))
					out = Fail(&PanicError{Method: c.Method, Value: v})
				}
			}()
			return next(ctx, c)
		}
	}
}

// PanicError is what RecoverCalls makes of a panic. A server's client does not see it.
type PanicError struct {
	Method string
	Value  any // that panic was given
}

// Error implements the error interface.
func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Method, e.Value) }
