package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

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

// Limits of the queue of one direction of a [Pipe]. Write waits while either is reached.
const (
	pipeMessages = 64
	pipeBytes    = 1 << 20
)

// Pipe returns the two ends of a connection in memory. A message that is written to one end is read from
// the other. Each direction has a queue of up to 64 messages; Write waits while the queue is full or has
// 1 MiB or more. The limit on the size of a message is DefaultClientMaxMessage.
//
// After Close of one end, the other end reads the queued messages and then io.EOF, and its Write returns
// a *WriteError. A Pipe starts no goroutine.
func Pipe() (a, b Conn) { return PipeLimits(DefaultClientMaxMessage, DefaultClientMaxMessage) }

// PipeLimits is [Pipe] with limits on the size of the messages that a and b read, in bytes. The limits
// must be positive.
func PipeLimits(maxA, maxB int) (a, b Conn) {
	toA, toB := newQueue(maxA), newQueue(maxB)
	return &pipeEnd{in: toA, out: toB}, &pipeEnd{in: toB, out: toA}
}

type pipeEnd struct {
	in, out *queue
	readMu  sync.Mutex
}

// Read implements [Conn].
func (p *pipeEnd) Read(ctx context.Context) ([]byte, error) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	return p.in.read(ctx)
}

// Write implements [Conn].
func (p *pipeEnd) Write(ctx context.Context, msg []byte) error {
	if err := checkMessage(msg); err != nil {
		return err
	}
	return p.out.write(ctx, msg)
}

// Close implements [Conn].
func (p *pipeEnd) Close() error {
	p.in.closeReader()
	p.out.closeWriter()
	return nil
}

// queued is a message, or the error of a message that exceeds the limit.
type queued struct {
	message  []byte
	tooLarge *MessageTooLargeError
}

// queue is one direction of a Pipe, a ring buffer of messages.
type queue struct {
	limit int

	mu           sync.Mutex
	ring         [pipeMessages]queued
	first, count int
	bytes        int
	readerClosed bool
	writerClosed bool

	readable   chan struct{} // holds a token when the queue may contain a message
	writable   chan struct{} // holds a token when the queue may have space
	readerDone chan struct{} // closed when readerClosed is set
	writerDone chan struct{} // closed when writerClosed is set
}

func newQueue(limit int) *queue {
	return &queue{
		limit:      limit,
		readable:   make(chan struct{}, 1),
		writable:   make(chan struct{}, 1),
		readerDone: make(chan struct{}),
		writerDone: make(chan struct{}),
	}
}

func (q *queue) read(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		switch {
		case q.readerClosed:
			q.mu.Unlock()
			return nil, ErrClosed
		case q.count > 0:
			msg, tooLarge := q.ring[q.first].message, q.ring[q.first].tooLarge
			q.ring[q.first] = queued{}
			q.first = (q.first + 1) % pipeMessages
			q.count--
			q.bytes -= len(msg)
			q.mu.Unlock()
			notify(q.writable)
			if tooLarge != nil {
				return nil, tooLarge
			}
			return msg, nil
		case q.writerClosed:
			q.mu.Unlock()
			return nil, io.EOF
		}
		q.mu.Unlock()
		select {
		case <-q.readable:
		case <-q.readerDone:
		case <-q.writerDone:
		case <-ctx.Done():
		}
	}
}

func (q *queue) write(ctx context.Context, msg []byte) error {
	var entry queued
	if len(msg) <= q.limit {
		entry.message = append(make([]byte, 0, len(msg)), msg...)
	} else {
		var envelope jsonscan.Envelope
		envelope.Write(msg)
		entry.tooLarge = newTooLargeError(q.limit, &envelope)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		q.mu.Lock()
		switch {
		case q.writerClosed:
			q.mu.Unlock()
			return ErrClosed
		case q.readerClosed:
			q.mu.Unlock()
			return &WriteError{Err: io.ErrClosedPipe}
		case q.hasSpace():
			q.ring[(q.first+q.count)%pipeMessages] = entry
			q.count++
			q.bytes += len(entry.message)
			more := q.hasSpace()
			q.mu.Unlock()
			notify(q.readable)
			if more {
				notify(q.writable) // another writer may be waiting
			}
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.writable:
		case <-q.readerDone:
		case <-q.writerDone:
		case <-ctx.Done():
		}
	}
}

func (q *queue) hasSpace() bool { return q.count < pipeMessages && q.bytes < pipeBytes }

func (q *queue) closeReader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.readerClosed {
		q.readerClosed = true
		clear(q.ring[:])
		q.count, q.bytes = 0, 0
		close(q.readerDone)
	}
}

func (q *queue) closeWriter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.writerClosed {
		q.writerClosed = true
		close(q.writerDone)
	}
}
