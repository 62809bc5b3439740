package call

import (
	"context"
	"time"
)

// Timing describes a call that has ended.
type Timing struct {
	Method string
	Name   string // the tool, prompt or URI, at most 128 bytes of it; may be empty
	Took   time.Duration
	// Outcome is "ok", "failed" for a tool result with isError, "input required", "cancelled",
	// "error" followed by a JSON-RPC error code, "capability missing", "scope missing",
	// "internal error" or "panic".
	Outcome string
}

// TimeCalls returns middleware that reports the duration of each call: on a server the time
// that handling takes, on a client the time until the response is there. Report runs in the
// goroutine of the call, which waits for it, and concurrently for concurrent calls.
func TimeCalls(report func(ctx context.Context, t Timing)) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (any, error) {
			t := Timing{Method: c.Method(), Name: c.shortName(), Outcome: "panic"}
			begin := time.Now()
			defer func() {
				t.Took = time.Since(begin)
				report(ctx, t)
			}()
			result, err := next(ctx, c)
			t.Outcome, _ = outcomeOf(ctx, result, err)
			return result, err
		}
	}
}
