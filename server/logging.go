package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Levels that the protocol has and package slog does not, for [Logger]. slog's own
// are the protocol's debug, info, warning and error; what is between two levels counts
// as the lower one.
const (
	LevelNotice    = slog.Level(2)
	LevelCritical  = slog.Level(12)
	LevelAlert     = slog.Level(16)
	LevelEmergency = slog.Level(20)
)

// Logger returns a logger whose records go to the client of the call that ctx
// belongs to, as far as it wants them: on a session those from the level that it has
// chosen, which is info if it has chosen none; in 2026-07-28 only if the request asks
// for them. They go nowhere else: for the server's own log, use a logger of your own.
//
// A record becomes an object of its message, as "message", and its attributes. Names
// of groups, joined by dots, are the name of the logger; groups of attributes are
// objects within. Of attributes with the same name the last counts. Records beyond
// 256 a second are left out and counted, larger ones than 64 KiB are cut to their
// message.
//
// The client is another party: log no secrets, no personal data and nothing about the
// inside of the system that would help an attacker.
//
// Records come before the call's response; those of later are dropped, and so are
// all where ctx is not a handler's. While a handler runs again that has asked
// something (see [Ask]), records are dropped until it comes to what is new. Safe for
// concurrent use.
//
// Deprecated: 2026-07-28 deprecates logging by protocol. Log to standard error or
// with OpenTelemetry, and tell the user what matters by [Progress].
func Logger(ctx context.Context) *slog.Logger {
	c := rpc.From(ctx)
	if c == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&logHandler{ctx: ctx, call: c})
}

// logHandler sends records to the client of a call.
type logHandler struct {
	ctx   context.Context // the call's: records come with contexts that may never end
	call  *rpc.Call
	name  string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.call.Logs(levelOf(level))
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	level := levelOf(r.Level)
	if !h.call.Logs(level) {
		return nil
	}
	return h.call.Log(h.ctx, level, h.name, encodeRecord(h.attrs, r))
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return &with
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	if h.name != "" {
		name = h.name + "." + name
	}
	with.name = name
	return &with
}

func levelOf(l slog.Level) mcp.LoggingLevel {
	switch {
	case l < slog.LevelInfo:
		return mcp.LevelDebug
	case l < LevelNotice:
		return mcp.LevelInfo
	case l < slog.LevelWarn:
		return mcp.LevelNotice
	case l < slog.LevelError:
		return mcp.LevelWarning
	case l < LevelCritical:
		return mcp.LevelError
	case l < LevelAlert:
		return mcp.LevelCritical
	case l < LevelEmergency:
		return mcp.LevelAlert
	}
	return mcp.LevelEmergency
}

// setLevel answers logging/setLevel, of the revisions that have sessions.
func (s *Server) setLevel(ctx context.Context, c *rpc.Call) (any, error) {
	raw, _ := c.Params().Get("level")
	level := mcp.LoggingLevel(jsonrpc.Unquote(raw))
	if !level.Known() {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.level must be one of %q", mcp.LoggingLevels())
	}
	if c.SetLevel == nil {
		return methodNotFound(c)
	}
	if err := c.SetLevel(ctx, level); err != nil {
		return nil, fmt.Errorf("keep the log level of a session: %w", err)
	}
	return &mcp.EmptyResult{}, nil
}
