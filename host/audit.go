package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// record returns an audit record of an event of a request, with further attributes. See [Host.Audit].
func (p *passage) record(event string, more ...slog.Attr) slog.Record {
	r, who := p.request, p.request.Caller.Principal
	attrs := []slog.Attr{slog.Uint64("call", p.number),
		slog.String("issuer", who.Issuer()), slog.String("subject", who.Subject()), slog.String("client", who.Client()),
		slog.Any("actors", actorsOf(r.Caller)), slog.Any("headers", p.headers),
		slog.String("server", r.Server), slog.String("method", r.Method), slog.String("kind", string(r.Kind)),
		slog.String("name", bounded(r.Name, maxAuditName)), slog.Any("arguments", shapeOf(r.Arguments))}
	if p.decided {
		attrs = append(attrs, slog.String("decision", p.decision.Action.String()),
			slog.String("reason", p.decision.Reason), slog.String("policyVersion", p.decision.Version),
			slog.Any("claims", p.decision.Claims), slog.String("group", p.decision.Group))
	}
	attrs = append(append(attrs, slog.String("approval", p.approval)), more...)
	if p.host.AuditValues && !r.ofServer() {
		attrs = append(attrs, slog.Any("values", r.Arguments))
	}
	return newRecord(event, attrs...)
}

// end returns the record of a request that has ended. An empty outcome means ok.
func (p *passage) end(event, outcome string, bytes int, err error) slog.Record {
	if outcome = cmp.Or(outcome, "ok"); err != nil {
		outcome, bytes = "error", 0
	}
	return p.record(event, slog.String("outcome", outcome), slog.String("error", classOf(err)),
		slog.Float64("seconds", time.Since(p.begin).Seconds()), slog.Int("bytes", bytes))
}

// newRecord returns a record of the event and leaves out attributes that are zero.
func newRecord(event string, attrs ...slog.Attr) slog.Record {
	record := slog.NewRecord(time.Now(), slog.LevelInfo, event, 0)
	record.AddAttrs(slices.DeleteFunc(attrs, func(a slog.Attr) bool {
		return reflect.ValueOf(a.Value.Any()).IsZero()
	})...)
	return record
}

const (
	maxActors      = 8
	maxAuditName   = 512
	maxShapeName   = 64  // bytes of a name in a shape
	maxShape       = 256 // keys and elements of a shape
	maxShapeLevels = 3
)

// actorsOf returns the subjects of the claim act, from the current actor to earlier ones.
func actorsOf(caller *auth.Info) (actors []string) {
	act, ok := caller.Claim("act")
	for ; ok && len(act) > 0 && act[0] == '{' && len(actors) < maxActors; act, ok = jsonrpc.Get(act, "act") {
		sub, _ := jsonrpc.Get(act, "sub")
		if len(sub) == 0 || sub[0] != '"' {
			break
		}
		actors = append(actors, bounded(jsonrpc.Unquote(sub), maxAuditName))
	}
	return actors
}

// shapeOf returns a JSON value with the names of raw, in which each value is replaced by its type.
func shapeOf(raw json.RawMessage) json.RawMessage {
	left := maxShape
	return shapeWithin(raw, maxShapeLevels, &left)
}

// shapeWithin returns the shape of a value with at most depth levels and *left entries, and decreases *left.
func shapeWithin(raw json.RawMessage, depth int, left *int) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		return json.RawMessage(`"string"`)
	case 't', 'f':
		return json.RawMessage(`"boolean"`)
	case 'n':
		return json.RawMessage(`"null"`)
	case '[':
		return json.RawMessage(`"array"`)
	case '{':
	default:
		return json.RawMessage(`"number"`)
	}
	if depth == 0 {
		return json.RawMessage(`"object"`)
	}
	shape := json.RawMessage{'{'}
	for name, value := range jsonrpc.All(raw) {
		if *left == 0 {
			break
		}
		*left--
		if len(shape) > 1 {
			shape = append(shape, ',')
		}
		shape = append(append(jsonrpc.AppendString(shape, bounded(name, maxShapeName)), ':'),
			shapeWithin(value, depth-1, left)...)
	}
	return append(shape, '}')
}

// bounded returns at most limit bytes of text, without cutting a character.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := range text {
		if i > limit {
			return text[:limit-3] + "…"
		}
	}
	return text
}

// record passes a record to the audit log.
func (h *Host) record(ctx context.Context, record slog.Record) error {
	return h.contain("Audit", func() error { return h.Audit.Handle(ctx, record) })
}

// recordLater records what has already happened. An error cannot undo it, so it is only logged.
func (h *Host) recordLater(ctx context.Context, record slog.Record) {
	if err := h.record(context.WithoutCancel(ctx), record); err != nil {
		h.logger().Error("cannot write the audit log", "event", record.Message, "error", err)
	}
}

// classOf returns the class of an error for a record, without text that a server or a caller has sent.
func classOf(err error) string {
	var reported *jsonrpc.Error
	var denied *DeniedError
	var limited *inputLimitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &denied):
		return denied.Reason
	case errors.As(err, &limited):
		return limited.reason
	case errors.As(err, &reported):
		return fmt.Sprintf("code %d", reported.Code)
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.As(err, new(*DownError)):
		return "server down"
	case errors.As(err, new(*call.TimeoutError)):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, call.ErrCancelled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, call.ErrConnectionLost):
		return "connection lost"
	case errors.Is(err, call.ErrUnauthorized):
		return "login required"
	case errors.Is(err, call.ErrInvalidResponse):
		return "invalid response"
	}
	return "other"
}
