package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/transport"
)

// Request is a request to send.
type Request struct {
	Method string
	// Params is the params object without _meta, or nil.
	Params []byte
	// Name is the tool, prompt or URI that Params names, which a transport may repeat.
	Name string
	// Mirror contains the parameters that a transport may repeat.
	Mirror []rpc.MirroredParam
	// Call is what middleware sees of the request; nil without middleware. A Chain sets it.
	Call *call.Call
	// Meta contains further entries of _meta.
	Meta map[string]json.RawMessage
	// LogLevel is the level of the log messages that the sender wants; empty means the level of its connection.
	LogLevel mcp.LoggingLevel
	// ConnectionMeta, if not nil, replaces Requests.Meta.
	ConnectionMeta []byte
	// Timeout limits the wait for the response; progress restarts it. 0 means no limit.
	Timeout time.Duration
	// MaxTimeout limits the wait regardless of progress. 0 means no limit.
	MaxTimeout time.Duration
	// Uncancellable stops Requests from notifying the peer that the request is cancelled. Initialize must not be
	// cancelled, and a peer that does not know server/discover does not expect a cancellation.
	Uncancellable bool
	// Capabilities, if set, limits the capabilities for input requests that the request declares (2026-07-28).
	Capabilities *mcp.ClientCapabilities
	// AnyResultType accepts results of types that extensions define.
	AnyResultType bool
	// AcceptTask accepts a task as the result of tools/call: an mcp.CreateTaskResult or, in
	// 2025-11-25, an mcp.LegacyCreateTaskResult.
	AcceptTask bool
	// TaskCreated is set to true if the result is an mcp.CreateTaskResult.
	TaskCreated bool
	// Token is set to the token of progress when the request is sent.
	Token jsonrpc.ID
	// OnProgress, if set, asks the peer for progress. It runs in the goroutine that waits for
	// the response, before the response is returned.
	OnProgress func(Progress)
	// OnNotification, if set, receives the notifications of the subscription that the request opens (2026-07-28,
	// basic/patterns/subscriptions). It runs in the goroutine that receives, must not block, and must not retain m.
	OnNotification func(m *jsonrpc.Message)
	// Forwarding, if set, takes the response if nothing but Forwarding.Append uses the result.
	Forwarding *rpc.Forwarding
	// MayHaveRun is set to true unless each exchange of the request has proven that the peer has not acted on it; see
	// provesUnserved. Check it before sending a request again, unless repeating the request is harmless. If middleware
	// sends the request more than once, it is about the last time, and RanBefore is about the others.
	MayHaveRun, RanBefore bool
	// InputRequested, if set, is set to true if the peer asks for input before it sends the result (2026-07-28,
	// basic/patterns/mrtr). Such a result must not be cached for other requests.
	InputRequested *bool
}

// Response is the response of a peer: a result or an error.
type Response struct {
	Result []byte // a JSON object
	Err    *jsonrpc.Error
}

// Progress is one progress report for a request.
type Progress struct {
	Done    float64
	Total   float64 // 0 if unknown
	Message string  // for display; may be empty
}

// ProgressOf reads the params of a progress notification.
func ProgressOf(m *jsonrpc.Message) (token jsonrpc.ID, p Progress, ok bool) {
	var params mcp.ProgressParams
	if schema.Decode(m.Raw, &params) != nil {
		return token, p, false
	}
	return params.ProgressToken, Progress{Done: params.Progress, Total: params.Total, Message: params.Message}, true
}

// Outgoing is one encoded message to send.
type Outgoing struct {
	Message []byte
	ID      jsonrpc.ID // ID of a request; zero for notifications and responses
	Method  string     // method of a request or notification
	Name    string     // see Request
	Mirror  []rpc.MirroredParam

	Forwarding *rpc.Forwarding // see Request
}

// Wire carries messages to a peer and passes the messages that arrive to a Receiver.
type Wire interface {
	// Send sends one message, which it does not retain. On a byte stream it returns when the message is written; its
	// error wraps call.ErrNotSent if ctx ends first. Over HTTP it returns when the response is complete and the
	// Receiver has received all messages of it; the end of ctx closes the response.
	Send(ctx context.Context, out *Outgoing) error
	// SetRevision sets the revision that the peers have agreed on.
	SetRevision(r mcp.Revision)
	// Close closes the connection, and waits until the Receiver is no longer called.
	Close() error
}

// Receiver receives the messages that arrive on a Wire, one after the other for each stream of
// messages. Its methods must not wait for the peer.
type Receiver interface {
	Receive(m *jsonrpc.Message)
	// ReceiveInvalid receives a message that is not valid; m contains what could be read of it.
	ReceiveInvalid(m *jsonrpc.Message, err error)
	// Lost is called when no more messages will arrive.
	Lost(err error)
}

// StreamObserver is a Receiver that observes the stream on which a server sends messages that
// belong to no request, in revisions that have such a stream.
type StreamObserver interface {
	// StreamOpened is called when the stream is open, for the first time or again. Earlier messages on it are lost.
	StreamOpened()
	// StreamClosed is called when the stream has ended and will not be opened again.
	StreamClosed()
}

// ReceiveInvalid passes an invalid message to r. m contains the part of data that could be read. If data is an
// invalid batch, or a batch in a revision without batches, the requests that wait for the responses in it end with
// the error. If data is not a message of a known kind, the error quotes its beginning, because it is often a line of
// a log.
func ReceiveInvalid(r Receiver, m *jsonrpc.Message, data []byte, err error) {
	for id := range Responses(data) {
		r.ReceiveInvalid(&jsonrpc.Message{Kind: jsonrpc.Response, ID: id}, err)
	}
	if m.Kind == jsonrpc.Invalid {
		err = fmt.Errorf("%w: %q", err, beginning(data))
	}
	r.ReceiveInvalid(m, err)
}

// Responses returns the ids of the responses in a batch that is invalid or not allowed, if they can be
// recognized, so that the requests that wait for them can fail. It returns none if batch is not a JSON array.
func Responses(batch []byte) iter.Seq[jsonrpc.ID] {
	return func(yield func(jsonrpc.ID) bool) {
		if !jsonrpc.IsBatch(batch) {
			return
		}
		i := jsonscan.SkipSpace(batch, jsonscan.SkipSpace(batch, 0)+1)
		for i < len(batch) && batch[i] == '{' {
			end := jsonscan.SkipValue(batch, i)
			m, _ := jsonrpc.Parse(batch[i:end], jsonrpc.Limits{}) // contains what could be read
			if m.Kind == jsonrpc.Response && !m.ID.IsZero() && !yield(m.ID) {
				return
			}
			if i = jsonscan.SkipSpace(batch, end); i < len(batch) && batch[i] == ',' {
				i = jsonscan.SkipSpace(batch, i+1)
			}
		}
	}
}

// LogUnmatched logs a response that is ignored because no request is waiting for it. Late responses are normal, but an
// error without an id can be the response to a request that the server could not read, which will time out.
func LogUnmatched(ctx context.Context, to *loglimit.Limiter, logger *slog.Logger, m *jsonrpc.Message) {
	if m.ID.IsZero() && m.Err != nil {
		to.Log(ctx, logger, slog.LevelWarn, "the server reports an error that belongs to no request",
			slog.String("error", beginning([]byte(m.Err.Error()))))
		return
	}
	to.Log(ctx, logger, slog.LevelDebug, "ignoring a response: no request is waiting for it",
		slog.String("id", m.ID.String()))
}

// maxBeginning is the maximum length of the text of a message in an error, in bytes.
const maxBeginning = 200

func beginning(data []byte) string {
	if len(data) > maxBeginning {
		return strings.ToValidUTF8(string(data[:maxBeginning]), "") + "…"
	}
	return string(data)
}

// TooLargeAdvice says, in errors, what to do about a message of a server that exceeds the limit.
const TooLargeAdvice = "let the server send less, for example a resource link, or raise Dialer.MaxMessage, " +
	"which is the flag --max-message of parley up"

// TooLargeError is the error for a message that was skipped because it exceeds the limit.
type TooLargeError struct {
	*transport.MessageTooLargeError
}

// Error implements the error interface.
func (e *TooLargeError) Error() string {
	text := fmt.Sprintf("the message exceeds the limit of %d bytes: %s", e.Limit, TooLargeAdvice)
	if e.Kind == jsonrpc.Invalid {
		text += "; it has no id that can be read, so a request to which it responds waits until its time-out"
	}
	return text
}

// Unwrap returns the error of the connection.
func (e *TooLargeError) Unwrap() error { return e.MessageTooLargeError }

// ReceiveTooLarge passes a message that was skipped to r.
func ReceiveTooLarge(r Receiver, skipped *transport.MessageTooLargeError) {
	r.ReceiveInvalid(&jsonrpc.Message{Kind: skipped.Kind, ID: skipped.ID}, &TooLargeError{skipped})
}

// SkippedEvent returns the error for the message of an event that was skipped, or nil if err is another error.
func SkippedEvent(err error) *transport.MessageTooLargeError {
	event, ok := errors.AsType[*httpcodec.EventTooLargeError](err)
	if !ok {
		return nil
	}
	skipped := &transport.MessageTooLargeError{Limit: event.Limit}
	raw, request, response := event.Envelope.ID()
	switch {
	case event.Envelope.IsNotification():
		skipped.Kind = jsonrpc.Notification
	case request == response, skipped.ID.UnmarshalJSON(raw) != nil:
		skipped.ID = jsonrpc.ID{}
	case request:
		skipped.Kind = jsonrpc.Request
	default:
		skipped.Kind = jsonrpc.Response
	}
	return skipped
}
