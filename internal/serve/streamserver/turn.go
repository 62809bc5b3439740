package streamserver

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
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

// batcher is a connection with a buffer of messages, to send several at once.
type batcher interface {
	transport.Conn
	// ReadBuffered returns the next message if Read would return it without waiting.
	ReadBuffered() []byte
	// WriteBuffered is like Write, but may leave the message in the buffer until the next Flush, Write or Close, or may
	// write it before it returns. It may append a byte to msg within the capacity.
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
			t.receive(c.calls, data)
		case !c.rejectTooLarge(err):
			c.failed <- err
			return
		}
	}
}

// rejectTooLarge answers a message that is too large, by its id if it is a request, and fails the input request if it
// is a response. It reports false if err is another error.
func (c *connection) rejectTooLarge(err error) bool {
	var tooLarge *transport.MessageTooLargeError
	if !errors.As(err, &tooLarge) {
		return false
	}
	c.received = true
	c.ignored.Log(c.ctx, c.Logger, slog.LevelWarn, "message rejected", slog.Any("error", err),
		slog.String("id", tooLarge.ID.String()))
	switch tooLarge.Kind {
	case jsonrpc.Response:
		c.session.ReceiveInvalid(&jsonrpc.Message{Kind: tooLarge.Kind, ID: tooLarge.ID}, err)
	case jsonrpc.Notification: // is not answered
	default:
		c.writeError(c.ctx, tooLarge.ID, rpc.MessageTooLarge(int64(tooLarge.Limit)))
	}
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
	start := time.Now()
	buf := rpc.NewBuffer()
	exited := true
	t.begin()
	defer func() {
		t.respond(*buf)
		rpc.FreeBuffer(buf)
		c.release(j)
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

// pace is how quickly requests of one kind have been served lately: calls of one tool or prompt,
// or requests with one method. The goroutine that reads serves the quick ones. All others have a
// goroutine of their own, so that they run in parallel.
type pace struct{ score atomic.Int32 }

const (
	quick     = 50 * time.Microsecond // limit of a quick request
	enough    = 4                     // score from which requests are served by the reader
	maxScore  = 8
	slowCost  = 4   // reduction of the score by a request that is not quick
	lateScore = -16 // lowest score, after a request that has ended a turn
	maxPaces  = 256 // kinds of requests; when there are more, the connection forgets all
	maxKind   = 128 // length of the name of a kind, in bytes
)

// paces are the paces of a connection, by kind of request. They are used by the reading goroutine only.
type paces map[string]*pace

// of returns the pace of requests like m, or nil if they are not distinguished.
func (all paces) of(m *jsonrpc.Message) *pace {
	kind := []byte(m.Method)
	switch m.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		kind, _ = m.Params.Get("name")
	}
	p := all[string(kind)]
	if p == nil && len(kind) <= maxKind {
		if len(all) == maxPaces {
			clear(all)
		}
		p = new(pace)
		all[string(kind)] = p
	}
	return p
}

// isQuick reports whether the reading goroutine can serve the next request.
func (p *pace) isQuick() bool { return p != nil && p.score.Load() >= enough }

// record records that a request has been served since start. inTime is false if the request has ended a turn.
func (p *pace) record(start time.Time, inTime bool) {
	switch {
	case p == nil:
	case !inTime:
		p.score.Store(lateScore)
	case time.Since(start) > quick:
		p.score.Store(max(p.score.Load()-slowCost, lateScore))
	case p.score.Load() < maxScore:
		p.score.Add(1)
	}
}
