package rpc

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

// maxLoggedName bounds what a log line repeats of a peer's words, in bytes.
const maxLoggedName = 128

// LogCalls is middleware that writes one line for each call when it is over: its
// method, what it names (a tool, a prompt, a URI), the revision, how long it took and
// how it ended ("ok", "failed" for a tool that reports failure, "input required",
// "cancelled", or the code of an error). Calls that end in an internal error are
// logged as warnings, all others as information.
//
// What was asked and answered is left out, and so is who asked: both can be personal
// or secret. The line's context is the call's, for handlers that add what they find
// there. Logger nil: slog.Default().
func LogCalls(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) Outcome {
			begin := time.Now()
			ended := "panic" // unless next returns
			level := slog.LevelWarn
			defer func() {
				logger.LogAttrs(ctx, level, "call", slog.String("method", c.Method), slog.String("name", c.nameForLog()),
					slog.String("revision", string(c.Revision)), slog.Duration("took", time.Since(begin)), slog.String("outcome", ended))
			}()
			out := next(ctx, c)
			ended, level = outcomeForLog(ctx, out)
			return out
		}
	}
}

// outcomeForLog says how a call ended, and how much that matters.
func outcomeForLog(ctx context.Context, out Outcome) (string, slog.Level) {
	var reported *jsonrpc.Error
	var missing *CapabilityError
	var lacking *auth.ScopeError
	switch {
	case out.Err == nil:
		switch result := out.Result.(type) {
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
	case errors.As(out.Err, &reported) && reported != nil && reported.Code != jsonrpc.CodeInternalError:
		return "error " + strconv.FormatInt(reported.Code, 10), slog.LevelInfo
	case errors.As(out.Err, &missing):
		return "capability missing", slog.LevelInfo
	case errors.As(out.Err, &lacking):
		return "scope missing", slog.LevelInfo
	}
	return "internal error", slog.LevelWarn
}

// nameForLog is what the call's params name.
func (c *Call) nameForLog() string {
	if c.Params == nil {
		return ""
	}
	for _, member := range [...]string{"name", "uri"} {
		if raw, ok := c.Params.Get(member); ok {
			name := jsonrpc.Unquote(raw)
			return strings.ToValidUTF8(name[:min(len(name), maxLoggedName)], "")
		}
	}
	return ""
}
