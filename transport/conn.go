package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Default limits on the size of a message that Read returns, in bytes without its line
// break. A server has the lower limit because it receives from many clients.
const (
	DefaultServerMaxMessage = 4 << 20
	DefaultClientMaxMessage = 16 << 20
)

// Conn is one end of a duplex connection that carries messages. Its methods may be called
// concurrently. A second Read waits until the first has returned.
type Conn interface {
	// Read returns the next message without its line break. It is never empty. The caller
	// owns the slice.
	//
	// Read returns io.EOF after the last message of the peer, an error that wraps
	// io.ErrUnexpectedEOF if the stream ends in the middle of a message, ErrClosed after Close,
	// and ctx.Err() when ctx ends first; no message is lost then. If a message exceeds the
	// limit, Read skips it and returns a *MessageTooLargeError. All other errors are permanent.
	Read(ctx context.Context) ([]byte, error)

	// Write sends one message. It does not retain msg.
	//
	// Write returns nil when the message is sent or queued. Messages are sent in the order
	// of their Writes. If the queue is full, Write waits for space. It returns ctx.Err()
	// when ctx ends first; the message is not sent then. If the connection fails, all
	// later Writes return a *WriteError, even though messages in the queue may be lost.
	// After Close it returns ErrClosed. The peer does not receive the whole message of a Write
	// that returns an error. If msg is empty or contains a line break, it
	// returns ErrInvalidMessage.
	Write(ctx context.Context, msg []byte) error

	// Close sends the queued messages, within a time limit, and closes the connection.
	// Waiting and later calls of Read and Write return ErrClosed. Close may be called more
	// than once and concurrently. Each call returns when the connection is closed, with
	// the same error.
	Close() error
}

var (
	// ErrClosed is returned by Read and Write after Close.
	ErrClosed = errors.New("transport: connection closed")

	// ErrInvalidMessage is returned by Write if the message is empty or not a single line.
	ErrInvalidMessage = errors.New("transport: message must be one non-empty line")
)

// MessageTooLargeError is returned by Read if a message of the peer exceeds the limit. The
// connection can still be used.
type MessageTooLargeError struct {
	Limit int // the limit in bytes

	// Kind is the kind of the message, and ID the id of a Request or Response. Both are zero if
	// they could not be read.
	Kind jsonrpc.Kind
	ID   jsonrpc.ID
}

func newTooLargeError(limit int, envelope *jsonscan.Envelope) *MessageTooLargeError {
	e := &MessageTooLargeError{Limit: limit}
	if envelope.IsNotification() {
		e.Kind = jsonrpc.Notification
		return e
	}
	id, request, response := envelope.ID()
	if request == response || e.ID.UnmarshalJSON(id) != nil {
		return e
	}
	e.Kind = jsonrpc.Request
	if response {
		e.Kind = jsonrpc.Response
	}
	return e
}

// Error implements the error interface.
func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("transport: message exceeds the limit of %d bytes", e.Limit)
}

// WriteError is returned by Write if the underlying stream has failed. It is permanent.
type WriteError struct {
	Err error // the error of the stream
}

// Error implements the error interface.
func (e *WriteError) Error() string { return "transport: write: " + e.Err.Error() }

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// checkMessage returns an error if a reader could take msg for no message or for
// several. It also rejects carriage returns, because some readers treat them as line
// breaks.
func checkMessage(msg []byte) error {
	if len(msg) == 0 {
		return fmt.Errorf("%w: message is empty", ErrInvalidMessage)
	}
	if bytes.IndexByte(msg, '\n') >= 0 || bytes.IndexByte(msg, '\r') >= 0 {
		return fmt.Errorf("%w: message contains a line break: encode it as compact JSON", ErrInvalidMessage)
	}
	return nil
}

// notify puts a token into a channel of capacity 1 unless it already contains one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
