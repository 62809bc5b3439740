package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// body is the body of a response. When it ends, the connection is kept for the next request.
type body struct {
	c       *connection
	ctx     context.Context // of the request
	content io.Reader
	stop    func() bool // ends the watch of ctx
	isLast  bool        // the server closes the connection after the response
	state   atomic.Int32
}

// The states of a body.
const (
	inUse    int32 = iota
	complete       // it was read to its end, and no longer uses the connection
	aborted        // the connection is closed
)

var errClosed = errors.New("http1: read from a closed response body")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch b.state.Load() {
	case complete:
		return 0, io.EOF
	case aborted:
		return 0, b.reason(net.ErrClosed)
	}
	n, err := b.content.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && b.end():
		return n, io.EOF
	}
	b.abort()
	return n, b.reason(err)
}

// reason returns why a body is aborted whose connection has failed with err.
func (b *body) reason(err error) error {
	switch {
	case b.ctx.Err() != nil:
		return context.Cause(b.ctx)
	case err == io.EOF, errors.Is(err, net.ErrClosed):
		return errClosed
	}
	return err
}

// Close implements io.Closer. It closes the connection if the body was not read to its end. It may be called while Read runs.
func (b *body) Close() error {
	b.stop()
	b.abort()
	return nil
}

// abort closes the connection unless the body is complete.
func (b *body) abort() {
	if b.state.CompareAndSwap(inUse, aborted) {
		b.c.conn.Close()
	}
}

// end releases the connection. It reports false if the body was aborted.
func (b *body) end() bool {
	if !b.state.CompareAndSwap(inUse, complete) {
		return false
	}
	b.stop()
	if b.isLast || b.c.reader.Buffered() > 0 {
		b.c.conn.Close()
	} else {
		b.c.t.put(b.c)
	}
	return true
}
