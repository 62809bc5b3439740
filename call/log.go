package call

import (
	"context"
	"errors"
	"log/slog"
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
