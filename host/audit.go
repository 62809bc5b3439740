package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// The events of an [AuditRecord].
const (
	// AuditAsked: an approval or the answer to a request of a server is required, and the question is in the
	// response to the caller (2026-07-28). If the caller answers, other records follow.
	AuditAsked = "asked"
	// AuditAllowed: the request is about to be sent or answered. AuditDone follows when it has ended, except for a
	// subscription and for a URL that an error requires the user to open.
	AuditAllowed = "allowed"
	// AuditDenied: the request was not sent or answered.
	AuditDenied = "denied"
	// AuditDone: the request has ended. Without AuditAllowed it was not sent, for example because the
	// server is down.
	AuditDone = "done"
	// AuditWithheld: a definition of a server is not used; see [Host.Review].
	AuditWithheld = "withheld"
	// AuditLogin: a caller has failed to authenticate. The program that authenticates callers records
	// it; a Host does not.
	AuditLogin = "login failed"
)

// AuditRecord is one entry of an audit log. Its JSON form contains the names and types of arguments, but
// no values, and no text of servers other than names. It never contains tokens.
type AuditRecord struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Call  uint64    `json:"call,omitzero"` // number of the request in this process; its records have the same

	// The caller. All are empty without authentication.
	Issuer  string `json:"issuer,omitzero"`
	Subject string `json:"subject,omitzero"`
	Client  string `json:"client,omitzero"`
	// Actors are the subjects who act for Subject, the current one first (RFC 8693, section 4.1).
	Actors []string `json:"actors,omitempty"`

	Server string `json:"server,omitzero"`
	Method string `json:"method,omitzero"`
	Kind   string `json:"kind,omitzero"`
	Name   string `json:"name,omitzero"` // as the server calls it; a URI for resources

	// Shape has the names and types of the arguments: at most 256 names of three levels.
	Shape json.RawMessage `json:"arguments,omitempty"`
	// Arguments are the arguments of the request, with their values. They are not part of the JSON form. They
	// are nil for requests of servers.
	Arguments json.RawMessage `json:"-"`

	Decision string `json:"decision,omitzero"` // allow, ask or deny
	Reason   string `json:"reason,omitzero"`
	Version  string `json:"policyVersion,omitzero"`
	// approved, "approved for the session", declined, unanswered or "not asked"
	Approval string `json:"approval,omitzero"`

	// Outcome is ok, "tool error" or error, or how the user has answered an elicitation: declined or dismissed.
	Outcome string `json:"outcome,omitzero"`
	// Error is the class of the error, such as timeout, or the code of a JSON-RPC error.
	Error    string  `json:"error,omitzero"`
	Duration float64 `json:"seconds,omitzero"` // from the arrival of the request, approval included
	Bytes    int     `json:"bytes,omitzero"`   // length of the result, if the server sent one
}

// newRecord returns a record about a request.
func (r *Request) newRecord(event string, number uint64) *AuditRecord {
	p := r.Caller.Principal
	record := &AuditRecord{
		Time: time.Now(), Event: event, Call: number,
		Issuer: p.Issuer(), Subject: p.Subject(), Client: p.Client(), Actors: actorsOf(r.Caller),
		Server: r.Server, Method: r.Method, Kind: r.Kind, Name: bounded(r.Name, maxAuditName),
		Shape: shapeOf(r.Arguments),
	}
	if !r.ofServer() {
		record.Arguments = r.Arguments
	}
	return record
}

const (
	maxActors      = 8
	maxAuditName   = 512
	maxShapeName   = 64  // bytes, of a name in a shape
	maxShape       = 256 // members of a shape
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

// shapeWithin returns the shape of a value with at most depth levels and *left members, which it decreases.
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

// bounded returns at most limit bytes of text, of whole characters.
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
func (h *Host) record(ctx context.Context, record *AuditRecord) error {
	if h.Audit == nil {
		return nil
	}
	return h.contain("Audit", func() error { return h.Audit(ctx, record) })
}

// recordLater is record for what has happened already: an error cannot prevent it, and is logged.
func (h *Host) recordLater(ctx context.Context, record *AuditRecord) {
	if err := h.record(context.WithoutCancel(ctx), record); err != nil {
		h.logger().Error("cannot write the audit log", "event", record.Event, "server", record.Server, "error", err)
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

// finish completes a record with the end of a request.
func (a *AuditRecord) finish(result json.RawMessage, err error, begin time.Time) {
	a.Outcome, a.Bytes, a.Duration = "ok", len(result), time.Since(begin).Seconds()
	if err != nil {
		a.Outcome, a.Error, a.Bytes = "error", classOf(err), 0
	}
}

// beforeRequest calls OnRequest with a request.
func (h *Host) beforeRequest(ctx context.Context, r *Request) error {
	if h.OnRequest == nil {
		return nil
	}
	seen := *r
	if err := h.contain("OnRequest", func() error { return h.OnRequest(ctx, &seen) }); err != nil {
		return r.denied("a hook rejects it", err)
	}
	if r.Arguments == nil && seen.Arguments == nil {
		return nil
	}
	if err := checkObject(seen.Arguments); err != nil {
		return r.denied("the arguments of a hook are invalid", err)
	}
	r.Arguments = seen.Arguments
	return nil
}

// afterResponse calls OnResult with a result, and returns the result for the caller.
func (h *Host) afterResponse(ctx context.Context, r *Request, result json.RawMessage) (json.RawMessage, error) {
	err := h.contain("OnResult", func() (err error) {
		result, err = h.OnResult(ctx, r, result)
		return err
	})
	if err == nil {
		err = checkObject(result)
	}
	if err != nil {
		return nil, r.denied("a hook rejects the result", err)
	}
	return result, nil
}

func checkObject(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("must be a JSON object")
	}
	return jsonrpc.Check(raw, jsonrpc.Limits{})
}
