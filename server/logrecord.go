package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
)

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
		err = jsonrpc.Check(raw, jsonrpc.Limits{MaxDepth: maxLogDepth})
	}
	if err != nil {
		return unencodable(err)
	}
	return raw
}

func unencodable(err error) json.RawMessage { return stringJSON("!ERROR: " + err.Error()) }

func stringJSON(s string) json.RawMessage { return jsonrpc.AppendString(nil, s) }
