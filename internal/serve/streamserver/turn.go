package streamserver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
)

// turn is the time during which one goroutine reads from a connection. The goroutine serves quick requests itself,
// because starting another costs as much as serving them: with 64 calls in flight this doubles the calls per second. It
// buffers their responses and flushes before it waits for the next message.
//
// While the goroutine serves a request or flushes, its turn may end: when that takes longer than patience, or when the
// handler sends a message before its response, such as an input request. The reading then goes on in a new turn, so
// that cancellations, pings and responses overtake the handler. The first goroutine finishes its request and ends.
//
// Invariant: a connection has one turn at a time. Only the goroutine of that turn reads and accepts requests.
type turn struct {
	c     *connection
	state atomic.Int32 // turnReads, turnBusy or turnEnded

	// Used by the goroutine of the turn only.
	timer     *time.Timer // ends the turn; nil until needed
	over      bool        // the turn has ended
	unflushed int         // bytes of buffered messages
}

const (
	turnReads int32 = iota // the goroutine reads or accepts a message
	turnBusy               // the goroutine serves a request or flushes: the turn may end
	turnEnded
)

// patience is the time after which a request no longer stops the reading.
const patience = time.Millisecond

// maxUnflushed is the number of bytes of responses above which the goroutine of a turn flushes before
// it reads the next message. The client processes them while the server serves the next requests.
const maxUnflushed = 4 << 10

// newTurn starts a goroutine that reads.
func (c *connection) newTurn() {
	t := &turn{c: c, unflushed: 1} // the former turn may have buffered a message
	c.goroutines.Go(t.read)
}

// begin lets the turn end until it is resumed.
func (t *turn) begin() {
	t.state.Store(turnBusy)
	if t.timer == nil {
		t.timer = time.AfterFunc(patience, t.end)
	} else {
		t.timer.Reset(patience)
	}
}

// resume continues the turn. It reports false if the turn has ended.
func (t *turn) resume() bool {
	t.timer.Stop()
	t.over = !t.state.CompareAndSwap(turnBusy, turnReads)
	return !t.over
}

// end ends the turn if its goroutine is busy. It is safe for concurrent use. A call that comes too
// late may end the turn during a later request, which does no harm.
func (t *turn) end() {
	if t.state.CompareAndSwap(turnBusy, turnEnded) {
		t.c.newTurn()
	}
}

// Write implements rpc.Stream for the request that the goroutine of the turn serves.
func (t *turn) Write(ctx context.Context, msg []byte) error {
	t.end()
	return t.c.conn.Write(ctx, msg)
}

// serve serves a request in the goroutine of the turn, and buffers its response.
func (t *turn) serve(j job) {
	c := t.c
	j.call.Stream = t
	start := time.Now()
	buf := rpc.NewBuffer()
	exited := true
	t.begin()
	defer func() {
		if n := len(*buf); n > 0 { // not cancelled
			c.written(c.ctx, c.conn.WriteBuffered(c.ctx, *buf))
			if t.unflushed += n; t.unflushed > maxUnflushed {
				t.flush()
			}
		}
		rpc.FreeBuffer(buf)
		<-j.slots
		c.running.Done()
		if exited { // runtime.Goexit
			t.timer.Stop()
			t.end()
			t.over = true
		} else {
			t.resume()
		}
		j.pace.record(start, !t.over)
		if t.over && t.unflushed > 0 {
			t.flush()
		}
	}()
	j.protocol.AppendReply(buf, j.call)
	exited = false
}

// flush sends the buffered messages.
func (t *turn) flush() {
	t.c.conn.Flush()
	t.unflushed = 0
}
