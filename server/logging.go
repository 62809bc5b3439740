package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Levels of the protocol that package slog does not have, for [Logger]. The protocol's debug,
// info, warning and error are those of slog; a level between two counts as the lower one.
const (
	LevelNotice    = slog.Level(2)
	LevelCritical  = slog.Level(12)
	LevelAlert     = slog.Level(16)
	LevelEmergency = slog.Level(20)
)

// Logger returns a logger that sends its records to the client of the call of ctx, if the
// client wants them: in a session those of the level that the client has set, info by default,
// and above; in 2026-07-28 only if the request asks for them. The records are not written to
// the server's own log.
//
// A record becomes an object with the member "message" and its attributes. The names of groups,
// joined by dots, become the name of the logger; a group of attributes becomes an object. The
// last of several attributes with the same name counts. Records beyond 256 in a second are left
// out and counted, and a record of more than 64 KiB is reduced to its message.
//
// Do not log secrets, personal data, or internal details that would help an attacker: the
// client is another party.
//
// Records after the end of the call are dropped, and so are all records if ctx is not the
// context of a handler. When a handler runs again after a question (see [Ask]), records are
// dropped until the question is answered. Safe for concurrent use.
//
// Deprecated: 2026-07-28 deprecates logging by protocol. Log to standard error or with
// OpenTelemetry, and report to the user with [Progress].
func Logger(ctx context.Context) *slog.Logger {
	c := rpc.From(ctx)
	if c == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&logHandler{ctx: ctx, call: c})
}

// logHandler sends records to the client of a call.
type logHandler struct {
	ctx   context.Context // of the call; the contexts of records may never end
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

// setLevel serves logging/setLevel, in the legacy revisions.
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
		return nil, fmt.Errorf("cannot store the log level of the session: %w", err)
	}
	return &mcp.EmptyResult{}, nil
}
