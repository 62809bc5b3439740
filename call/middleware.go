package call

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxLoggedName limits the bytes of a peer's text that a log line repeats.
const maxLoggedName = 128

// LogCalls returns middleware that logs one line when a call ends: its method, the tool, prompt
// or URI that it names (at most 128 bytes of it), the revision, the duration and the outcome: "ok",
// "failed" for a tool result with isError, "input required", "cancelled", "error" followed by a
// JSON-RPC error code, "capability missing", "scope missing", "internal error" or "panic".
// Internal errors and panics are warnings; all other outcomes are information.
//
// The line contains no parameters, no result and no principal, because they can be personal or secret. The logger
// receives the context of the call. A nil logger means slog.Default().
func LogCalls(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (any, error) {
			begin := time.Now()
			outcome, level := "panic", slog.LevelWarn // unless next returns
			defer func() {
				logger.LogAttrs(ctx, level, "call", slog.String("method", c.Method()),
					slog.String("name", c.shortName()),
					slog.String("revision", string(c.Revision())), slog.Duration("took", time.Since(begin)),
					slog.String("outcome", outcome))
			}()
			result, err := next(ctx, c)
			outcome, level = outcomeOf(ctx, result, err)
			return result, err
		}
	}
}

// outcomeOf returns the outcome of a call and the level at which it is logged.
func outcomeOf(ctx context.Context, result any, err error) (string, slog.Level) {
	var reported *jsonrpc.Error
	var capability *CapabilityError
	var scope *auth.ScopeError
	switch {
	case err == nil:
		switch result := result.(type) {
		case *mcp.CallToolResult:
			if result != nil && result.IsError {
				return "failed", slog.LevelInfo
			}
		case *mcp.InputRequiredResult:
			return "input required", slog.LevelInfo
		}
		return "ok", slog.LevelInfo
	case ctx.Err() != nil:
		return "cancelled", slog.LevelInfo
	case errors.As(err, &reported) && reported != nil && reported.Code != jsonrpc.CodeInternalError:
		return "error " + strconv.FormatInt(reported.Code, 10), slog.LevelInfo
	case errors.As(err, &capability):
		return "capability missing", slog.LevelInfo
	case errors.As(err, &scope):
		return "scope missing", slog.LevelInfo
	}
	return "internal error", slog.LevelWarn
}

// shortName returns Name, shortened for logs.
func (c *Call) shortName() string {
	name := c.Name()
	return strings.ToValidUTF8(name[:min(len(name), maxLoggedName)], "")
}

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
// ends. On a server the middleware does nothing.
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
				if !transient || attempt == r.Attempts || least > maxRetryWait || ctx.Err() != nil {
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
