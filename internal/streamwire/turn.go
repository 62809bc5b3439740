package streamwire

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/transport"
)

// turn is the time during which one goroutine reads from a connection. The goroutine serves
// quick requests itself, because starting another costs as much as serving them. It buffers
// their responses and flushes before it waits for the next message.
//
// While the goroutine serves a request or flushes, its turn may end: when that takes too long,
// which the watchdog finds out, or when the handler sends a message before its response, such as
// an input request. The reading then goes on in a new turn, so that cancellations, pings and
// responses overtake the handler. The first goroutine finishes its request and ends.
//
// Invariant: a connection has one turn at a time. Only the goroutine of that turn reads and
// accepts requests.
type turn struct {
	c *connection
	// state is even while the goroutine reads, and odd while the turn may end. It changes with
	// each request, so that the watchdog recognizes a request that it has seen before.
	state atomic.Uint64

	// Used by the goroutine of the turn only.
	reads     uint64 // the last even state
	over      bool   // the turn has ended
	unflushed int    // bytes of buffered messages
}

// maxUnflushed is the number of bytes of responses above which the goroutine of a turn flushes before
// it reads the next message. The client processes them while the server serves the next requests.
const maxUnflushed = 4 << 10

// ended is the state of a turn that has ended.
const ended = ^uint64(0)

// newTurn starts a goroutine that reads.
func (c *connection) newTurn() {
	t := &turn{c: c, unflushed: 1} // the former turn may have buffered a message
	c.turn.Store(t)
	c.goroutines.Go(t.read)
}

// begin lets the turn end until it is resumed.
func (t *turn) begin() {
	t.state.Store(t.reads | 1)
	t.c.watchdog.start()
}

// resume continues the turn. It reports false if the turn has ended.
func (t *turn) resume() bool {
	next := t.reads + 2
	if !t.state.CompareAndSwap(t.reads|1, next) {
		t.over = true
		return false
	}
	t.reads = next
	return true
}

// end ends the turn in this state, which is odd. It has no effect in another state. It is safe
// for concurrent use.
func (t *turn) end(state uint64) {
	if state != ended && state&1 == 1 && t.state.CompareAndSwap(state, ended) {
		t.c.newTurn()
	}
}

// Write implements rpc.Stream for the request that the goroutine of the turn serves.
func (t *turn) Write(ctx context.Context, msg []byte) error {
	t.end(t.state.Load())
	return t.c.conn.Write(ctx, msg)
}

// batcher is a connection with a buffer of messages, to send several at once.
type batcher interface {
	transport.Conn
	// ReadBuffered returns the next message if Read would return it without waiting.
	ReadBuffered() []byte
	// WriteBuffered is like Write, but may leave the message in the buffer until the next Flush,
	// Write or Close, or may write it before it returns. It may append a byte to msg within the
	// capacity.
	WriteBuffered(ctx context.Context, msg []byte) error
	// Flush sends the buffered messages.
	Flush()
}

// asBatcher returns conn as a batcher, which buffers nothing if conn cannot.
func asBatcher(conn transport.Conn) batcher {
	if b, ok := conn.(batcher); ok {
		return b
	}
	return immediate{conn}
}

// immediate is a connection that sends each message at once.
type immediate struct{ transport.Conn }

func (immediate) ReadBuffered() []byte                                  { return nil }
func (i immediate) WriteBuffered(ctx context.Context, msg []byte) error { return i.Write(ctx, msg) }
func (immediate) Flush()                                                {}

// read reads messages until the turn ends, reading ends or the connection fails.
func (t *turn) read() {
	c := t.c
	for !t.over {
		data, err := t.next()
		switch {
		case t.over:
		case err == nil:
			c.received = true
			t.receive(c.ctx, data)
		case !c.rejectTooLarge(err):
			c.failed <- err
			return
		}
	}
}

// rejectTooLarge answers a message that is too large. It reports false if err is another error.
func (c *connection) rejectTooLarge(err error) bool {
	var tooLarge *transport.MessageTooLargeError
	if !errors.As(err, &tooLarge) {
		return false
	}
	c.received = true
	c.writeError(c.ctx, jsonrpc.ID{}, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "message must have at most %d bytes", tooLarge.Limit))
	return true
}

// next returns the next message. It flushes before it waits.
func (t *turn) next() ([]byte, error) {
	c := t.c
	if c.reading.Err() == nil {
		if data := c.conn.ReadBuffered(); data != nil {
			return data, nil
		}
		if t.unflushed > 0 {
			t.begin()
			t.flush()
			if !t.resume() {
				return nil, nil
			}
		}
	}
	return c.conn.Read(c.reading)
}

// serve serves a request in the goroutine of the turn.
func (t *turn) serve(j job) {
	c := t.c
	j.call.Stream = t
	start := j.pace.sample()
	buf := rpc.NewBuffer()
	exited := true
	t.begin()
	defer func() {
		t.respond(*buf)
		rpc.FreeBuffer(buf)
		c.release(j)
		if exited { // runtime.Goexit
			t.end(t.state.Load())
			t.over = true
		} else {
			t.resume()
		}
		j.pace.record(start, !t.over)
		if t.over && t.unflushed > 0 {
			t.flush()
		}
	}()
	c.appendReply(buf, j)
	exited = false
}

// respond buffers the response to a request.
func (t *turn) respond(reply []byte) {
	c := t.c
	if len(reply) == 0 { // cancelled
		return
	}
	c.written(c.ctx, c.conn.WriteBuffered(c.ctx, reply))
	if t.unflushed += len(reply); t.unflushed > maxUnflushed {
		t.flush()
	}
}

// flush sends the buffered messages.
func (t *turn) flush() {
	t.c.conn.Flush()
	t.unflushed = 0
}
