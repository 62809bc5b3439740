package transport

import (
	"context"
	"io"
	"sync"
)

// Bounds of one direction of a [Pipe]. Beyond either, Write waits for the reader.
const (
	pipeMessages = 64
	pipeBytes    = 1 << 20
)

// Pipe returns the two ends of a connection in memory: what is written to one is read from the other.
// In each direction up to 64 messages are queued, as long as they are not more than 1 MiB together;
// then Write waits for the reader. A message over DefaultClientMaxMessage is reported to its reader as
// a *MessageTooLargeError, as it is on every other Conn.
//
// What was written before Close is still read by the other end, which then gets io.EOF; writing to an
// end whose other end is closed is a *WriteError. A Pipe has no goroutine.
func Pipe() (a, b Conn) { return PipeLimits(DefaultClientMaxMessage, DefaultClientMaxMessage) }

// PipeLimits is [Pipe] with limits on the messages that a and b read, in bytes. They must be positive.
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

// queue is one direction of a Pipe: a bounded ring of messages.
type queue struct {
	limit int

	mu           sync.Mutex
	ring         [pipeMessages][]byte // a nil entry stands for a message over the limit
	first, count int
	bytes        int
	readerClosed bool
	writerClosed bool

	readable   chan struct{} // holds a token when there may be something to read
	room       chan struct{} // holds a token when there may be room to write
	readerOver chan struct{} // closed with readerClosed
	writerOver chan struct{} // closed with writerClosed
}

func newQueue(limit int) *queue {
	return &queue{
		limit:      limit,
		readable:   make(chan struct{}, 1),
		room:       make(chan struct{}, 1),
		readerOver: make(chan struct{}),
		writerOver: make(chan struct{}),
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
			msg := q.ring[q.first]
			q.ring[q.first] = nil
			q.first = (q.first + 1) % pipeMessages
			q.count--
			q.bytes -= len(msg)
			q.mu.Unlock()
			notify(q.room)
			if msg == nil {
				return nil, &MessageTooLargeError{Limit: q.limit}
			}
			return msg, nil
		case q.writerClosed:
			q.mu.Unlock()
			return nil, io.EOF
		}
		q.mu.Unlock()
		select {
		case <-q.readable:
		case <-q.readerOver:
		case <-q.writerOver:
		case <-ctx.Done():
		}
	}
}

func (q *queue) write(ctx context.Context, msg []byte) error {
	var message []byte // our own copy
	if len(msg) <= q.limit {
		message = append(make([]byte, 0, len(msg)), msg...)
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
		case q.hasRoom():
			q.ring[(q.first+q.count)%pipeMessages] = message
			q.count++
			q.bytes += len(message)
			more := q.hasRoom()
			q.mu.Unlock()
			notify(q.readable)
			if more {
				notify(q.room) // another writer may be waiting: pass the token on
			}
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-q.readerOver:
		case <-q.writerOver:
		case <-ctx.Done():
		}
	}
}

func (q *queue) hasRoom() bool { return q.count < pipeMessages && q.bytes < pipeBytes }

func (q *queue) closeReader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.readerClosed {
		q.readerClosed = true
		clear(q.ring[:])
		q.count, q.bytes = 0, 0
		close(q.readerOver)
	}
}

func (q *queue) closeWriter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.writerClosed {
		q.writerClosed = true
		close(q.writerOver)
	}
}
