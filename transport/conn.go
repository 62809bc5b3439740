package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Limits on the size of a message that is read, in bytes without its line break. What a server reads
// comes from many, what a client reads it has asked for.
const (
	DefaultServerMaxMessage = 4 << 20
	DefaultClientMaxMessage = 16 << 20
)

// Conn is one end of a duplex connection that carries messages. There may be one reader and any number
// of writers and closers at a time; a second reader waits for the first.
type Conn interface {
	// Read returns the next message, never empty, without its line break. The slice is the caller's
	// own and is not used again.
	//
	// It returns io.EOF when the peer has sent all that it will, ErrClosed after Close, and the
	// context's error when ctx ends first; in that case nothing is lost and Read may be called again.
	// A message above the limit is reported as a *MessageTooLargeError as soon as it is known to be
	// too large; the next Read discards the rest of it and goes on behind it. Every other error is
	// final.
	Read(ctx context.Context) ([]byte, error)

	// Write sends one message. It does not keep msg.
	//
	// It returns nil when the message is sent or is queued, in order, behind a write that is under
	// way. The queue is bounded: when it is full, Write waits for room, for the end of ctx, whose
	// error it then returns without having sent anything, or for the end of the connection. A
	// connection that breaks after a message was queued fails all later Writes with a *WriteError.
	// After Close it returns ErrClosed. A message that is empty or contains a line break is
	// ErrMessageForm.
	Write(ctx context.Context, msg []byte) error

	// Close sends what is queued, for a bounded time, and ends the connection. Read and Write
	// return ErrClosed from then on, also those that are waiting. It may be called more than once and
	// concurrently: each call returns when the connection is closed, with the same error.
	Close() error
}

var (
	// ErrClosed is returned by Read and Write once this end was closed.
	ErrClosed = errors.New("transport: connection closed")

	// ErrMessageForm says that the bytes given to Write cannot be one line.
	ErrMessageForm = errors.New("transport: not one line")
)

// MessageTooLargeError reports a message of the peer that exceeds the limit. It was not delivered. The
// connection remains usable.
type MessageTooLargeError struct {
	Limit int // in bytes
}

// Error implements the error interface.
func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("transport: message exceeds the limit of %d bytes", e.Limit)
}

// WriteError reports that the connection cannot be written to any more. It stays: every Write after
// the first that failed returns it.
type WriteError struct {
	Err error // of the underlying stream
}

// Error implements the error interface.
func (e *WriteError) Error() string { return "transport: write: " + e.Err.Error() }

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// checkMessage refuses what a reader could see as another number of messages than one. JSON on one
// line contains neither line feed nor carriage return, and some readers end a line at either.
func checkMessage(msg []byte) error {
	if len(msg) == 0 {
		return fmt.Errorf("%w: the message is empty", ErrMessageForm)
	}
	if bytes.IndexByte(msg, '\n') >= 0 || bytes.IndexByte(msg, '\r') >= 0 {
		return fmt.Errorf("%w: the message contains a line break, compact it first", ErrMessageForm)
	}
	return nil
}

// notify leaves a token in a channel of capacity 1, for whoever waits or will wait.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
