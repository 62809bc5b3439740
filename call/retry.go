package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parley-mcp/parley/mcp"
)

// Retry configures [RetryRequests]. The zero Retry uses the defaults.
type Retry struct {
	Attempts int           // including the first; default 3; more than 10 means 10
	Wait     time.Duration // longest wait before the second attempt; default 200 ms
	// Tool reports whether a tool may be called again. A tool declares that in its annotations
	// (idempotentHint, readOnlyHint), which are only reliable if the server is trusted: see
	// [mcp.ToolAnnotations]. Nil means that no tool may.
	Tool func(name string) bool
}

// safeMethods lists the methods that change nothing on a server.
var safeMethods = []string{
	mcp.MethodDiscover, mcp.MethodPing, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources,
	mcp.MethodListResourceTemplates,
	mcp.MethodReadResource, mcp.MethodGetPrompt, mcp.MethodComplete,
}

// maxRetryWait is the longest wait before an attempt.
const maxRetryWait = 10 * time.Second

// RetryRequests returns middleware for a client that repeats requests after a transient
// failure: a lost connection, a time-out, an *[OverloadError], or a response with status 502 or
// 504. It repeats lists, reads, prompts, completions,
// pings and discovery, and the calls of tools for which Retry.Tool returns true.
//
// The longest wait is Retry.Wait before the second attempt, and doubles before each further
// attempt, up to 10 seconds. The actual wait is random, at least half of that, and at least
// as long as the server asks for. If the server asks for more than 10 seconds, the request is not
// repeated. RetryRequests returns the last error. A wait ends when the context of the request
// ends. If a connection to a process, or a session, has ended, the client reconnects once and
// begins again with the first attempt. On a server the middleware does nothing.
func RetryRequests(r Retry) Middleware {
	if r.Attempts <= 0 {
		r.Attempts = 3
	}
	r.Attempts = min(r.Attempts, 10)
	if r.Wait <= 0 {
		r.Wait = 200 * time.Millisecond
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (any, error) {
			if !c.isOutgoing() || !r.isSafe(c) {
				return next(ctx, c)
			}
			wait := min(r.Wait, maxRetryWait)
			for attempt := 1; ; attempt++ {
				result, err := next(ctx, c)
				if err == nil {
					return result, nil
				}
				least, transient := isTransient(err)
				_, ended := errors.AsType[connectionEnded](err)
				if !transient || ended || attempt == r.Attempts || least > maxRetryWait || ctx.Err() != nil {
					return result, err
				}
				timer := time.NewTimer(max(wait/2+rand.N(wait/2+1), least))
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
					return result, err
				}
				wait = min(2*wait, maxRetryWait)
			}
		}
	}
}

// connectionEnded is implemented by the error of a request that was not sent because its connection, or its session,
// has ended. The client reconnects when the middleware has returned, and then sends the request.
type connectionEnded interface {
	error
	ConnectionEnded()
}

// isSafe reports whether a request may be sent twice.
func (r *Retry) isSafe(c *Call) bool {
	if c.Method() == mcp.MethodCallTool && r.Tool != nil {
		return r.Tool(c.Name())
	}
	return slices.Contains(safeMethods, c.Method())
}

// isTransient reports whether a request that failed with err may succeed later, and how long
// the server wants the client to wait.
func isTransient(err error) (wait time.Duration, transient bool) {
	if overload, ok := errors.AsType[*OverloadError](err); ok {
		return overload.RetryAfter, true
	}
	if response, ok := errors.AsType[*StatusError](err); ok && (response.Status == 502 || response.Status == 504) {
		return response.RetryAfter, true
	}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return 0, true
	}
	return 0, errors.Is(err, ErrConnectionLost)
}
