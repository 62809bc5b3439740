package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Levels of the protocol that package slog does not have.
const (
	levelNotice    = slog.Level(2)
	levelCritical  = slog.Level(12)
	levelAlert     = slog.Level(16)
	levelEmergency = slog.Level(20)
)

// Logger returns a logger that sends its records to the client of a call. In a session the
// client receives the records of the level that it has set and above, info and above by default.
// In 2026-07-28 it receives records only if its request asks for them. The records do not appear
// in the server's own log.
//
// The protocol's debug, info, warning and error are the levels of slog; notice is slog.Level(2), critical 12, alert 16
// and emergency 20. A level between two of them counts as the lower one.
//
// A record becomes a JSON object with the key "message" and a key for each attribute. If several attributes have the
// same name, the last one wins. A group becomes an object. The names of WithGroup, joined by dots, become the name of
// the logger. A record of more than 64 KiB is reduced to its message. If a call logs more than 256 records in a second,
// the others are dropped, and a warning tells the client how many.
//
// Do not log secrets, personal data, or internal details that would help an attacker, because
// the client may belong to another party.
//
// Logger drops all records if ctx is not the context of a handler, and records after the end of
// the call. When a handler runs again after a question (see [Ask]), Logger drops the records up
// to the last answered question, because the client has received them already. Safe for
// concurrent use.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Log to standard error or with OpenTelemetry instead, and report to the user with [Progress].
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
	case l < levelNotice:
		return mcp.LevelInfo
	case l < slog.LevelWarn:
		return mcp.LevelNotice
	case l < slog.LevelError:
		return mcp.LevelWarning
	case l < levelCritical:
		return mcp.LevelError
	case l < levelAlert:
		return mcp.LevelCritical
	case l < levelEmergency:
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
	if c.SessionNotifier == nil {
		return nil, rpc.MethodNotFound(c)
	}
	if err := c.SessionNotifier.SetLevel(ctx, level); err != nil {
		return nil, fmt.Errorf("cannot store the log level of the session: %w", err)
	}
	return &mcp.EmptyResult{}, nil
}

const (
	messageKey   = "message"
	maxLogRecord = 64 << 10 // bytes of the data of one log message
	maxLogText   = 8 << 10  // of the message alone, when the record is too large
	maxLogDepth  = 64       // of one attribute's value; clients bound the depth of messages, too
)

// encodeRecord encodes the data of a log message: an object with the message and the
// attributes, without duplicate names.
func encodeRecord(attrs []slog.Attr, r slog.Record) []byte {
	members := make(map[string]json.RawMessage, 1+len(attrs)+r.NumAttrs())
	addAttrs(members, attrs)
	r.Attrs(func(a slog.Attr) bool {
		addAttr(members, a)
		return true
	})
	members[messageKey] = stringJSON(r.Message)
	raw, err := json.Marshal(members)
	if err != nil || len(raw) > maxLogRecord {
		text := r.Message
		if len(text) > maxLogText {
			text = text[:maxLogText]
		}
		raw = append(jsonrpc.AppendString([]byte(`{"message":`), text), `,"truncated":true}`...)
	}
	return raw
}

func addAttrs(members map[string]json.RawMessage, attrs []slog.Attr) {
	for _, a := range attrs {
		addAttr(members, a)
	}
}

// addAttr adds an attribute by the rules of slog.Handler: an empty attribute is left out, and
// the attributes of a group without a name are added directly.
func addAttr(members map[string]json.RawMessage, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		if a.Key != "" || v.Any() != nil {
			members[a.Key] = valueJSON(v)
		}
		return
	}
	switch group := v.Group(); {
	case len(group) == 0:
	case a.Key == "":
		addAttrs(members, group)
	default:
		inner := make(map[string]json.RawMessage, len(group))
		addAttrs(inner, group)
		raw, err := json.Marshal(inner)
		if err != nil {
			raw = unencodable(err)
		}
		members[a.Key] = raw
	}
}

// valueJSON encodes a value in the same way as slog.JSONHandler.
func valueJSON(v slog.Value) json.RawMessage {
	switch v.Kind() {
	case slog.KindString:
		return stringJSON(v.String())
	case slog.KindDuration:
		return stringJSON(v.Duration().String())
	case slog.KindTime:
		return stringJSON(v.Time().Format(time.RFC3339Nano))
	}
	return anyJSON(v.Any())
}

// anyJSON encodes any logged value. A value without a strict JSON encoding is replaced by an
// error text, because logging must not make the call fail.
func anyJSON(v any) (raw json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			raw = unencodable(fmt.Errorf("panic: %v", p))
		}
	}()
	if err, ok := v.(error); ok {
		if _, ok := v.(json.Marshaler); !ok {
			return stringJSON(err.Error())
		}
	}
	raw, err := json.Marshal(v)
	if err == nil {
		raw = jsonscan.AppendUTF8(nil, raw) // of a json.RawMessage
		err = jsonrpc.Check(raw, jsonrpc.Limits{MaxDepth: maxLogDepth})
	}
	if err != nil {
		return unencodable(err)
	}
	return raw
}

func unencodable(err error) json.RawMessage { return stringJSON("!ERROR: " + err.Error()) }

func stringJSON(s string) json.RawMessage { return jsonrpc.AppendString(nil, s) }
