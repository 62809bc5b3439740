package transport

import (
	"context"
	"io"
	"sync"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

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
