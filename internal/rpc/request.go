package rpc

import (
	"context"
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Progress is one progress report for a request.
type Progress struct {
	Done    float64
	Total   float64 // 0 if unknown
	Message string  // for display; may be empty
}

// Request is a request to send.
type Request struct {
	Method string
	// Params is the params object without _meta, nil for none.
	Params []byte
	// Name is what Params names: the tool, prompt or URI that a transport may mirror.
	Name string
	// Mirror are the parameters that a transport repeats, where it has a place for them.
	Mirror []MirroredParam
	// Meta are further members of _meta.
	Meta map[string]json.RawMessage
	// Timeout bounds the wait for the response; progress sets it back. 0: no bound.
	Timeout time.Duration
	// MaxTimeout bounds the wait whatever progress is reported. 0: no bound.
	MaxTimeout time.Duration
	// Uncancellable requests are not cancelled at the peer when they are given up:
	// initialize must not be, and a peer that knows no server/discover need not hear
	// of it again.
	Uncancellable bool
	// AnyResultType has results of the types that extensions add returned as they are.
	AnyResultType bool
	// OnProgress, if set, asks the peer for progress. It runs in the goroutine that
	// waits for the response, and always before that response is returned.
	OnProgress func(Progress)
	// OnNotification, if set, takes the notifications of a subscription that this request opens
	// (2026-07-28, basic/patterns/subscriptions). It runs in the goroutine that receives,
	// must not block, and must not keep m.
	OnNotification func(m *jsonrpc.Message)
	// InputRequested, if set, is where to note that the peer asked for input before it answered
	// (2026-07-28, basic/patterns/mrtr): such a result must not be kept for others.
	InputRequested *bool
}

// Response is what a peer answered: a result, or what it reported instead.
type Response struct {
	Result []byte // the result object
	Err    *jsonrpc.Error
}

// Outgoing is one encoded message on its way out.
type Outgoing struct {
	Message []byte
	ID      jsonrpc.ID // of a request; zero for notifications and responses
	Method  string     // of a request or notification
	Name    string     // see Request
	Mirror  []MirroredParam
}

// Wire carries messages to a peer, in whichever way a transport does. It hands
// every message that arrives to a Receiver.
type Wire interface {
	// Send sends one message, which it does not retain. On a byte stream it returns
	// when the message is written; its error wraps ErrNotSent if ctx ended before that.
	// Over HTTP it returns when the server has finished answering, and everything that
	// the server sent has been received; ending ctx then abandons the answer.
	Send(ctx context.Context, out *Outgoing) error
	// SetRevision tells the wire which revision the peers have agreed on.
	SetRevision(r mcp.Revision)
	// Close ends the connection and waits until nothing more is received.
	Close() error
}

// Receiver takes what arrives on a Wire, one message after the other for each
// stream of messages. It must not block on the peer.
type Receiver interface {
	Receive(m *jsonrpc.Message)
	// ReceiveInvalid is told of a message that is none; m has what could be read of it.
	ReceiveInvalid(m *jsonrpc.Message, err error)
	// Lost is told that nothing more will arrive, and why.
	Lost(err error)
}

// ProgressOf reads the params of a progress notification.
func ProgressOf(m *jsonrpc.Message) (token jsonrpc.ID, p Progress, ok bool) {
	var params mcp.ProgressParams
	if jsonv2.Unmarshal(m.Raw, &params) != nil {
		return token, p, false
	}
	return params.ProgressToken, Progress{Done: params.Progress, Total: params.Total, Message: params.Message}, true
}
