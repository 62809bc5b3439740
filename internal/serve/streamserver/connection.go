package streamserver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/transport"
)

// connection is one connection that is being served.
type connection struct {
	*Server
	conn    batcher
	session *legacy.Session         // for the legacy messages of this connection
	modern  modern.Server           // for the modern ones
	from    rpc.Sender              // of all messages
	fail    context.CancelCauseFunc // cancels all requests; the connection is broken
	ignored loglimit.Limiter        // of log lines for ignored messages

	ctx        context.Context // of what is written
	calls      context.Context // of all requests; ends before ctx
	reading    context.Context // ends when the server no longer reads
	goroutines sync.WaitGroup  // those that read or have read, and the workers
	failed     chan error      // receives the error that ends the reading

	// Used by the reading goroutine only.
	paces      paces
	received   bool // a message has arrived
	modernPeer bool // a modern request has arrived
	notifying  bool // the session's notifications are being delivered

	jobs              chan job      // unbuffered: from the reading goroutine to an idle worker
	slots             chan struct{} // semaphore of concurrent requests
	subscriptionSlots chan struct{} // the same for subscriptions; created on first use
	queueSlots        chan struct{} // semaphore of queued requests
	paused            atomic.Bool   // reading waits for a slot or for the handler of a notification

	mu           sync.Mutex // guards the order of running.Add and endAccepting
	running      sync.WaitGroup
	closing      context.Context // ends when no more requests are accepted
	endAccepting context.CancelFunc
}

// begin counts one more running request. It reports false if the connection accepts no more requests.
func (c *connection) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *connection) stopAccepting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endAccepting()
}

// protocol returns what accepts the messages of an era.
func (c *connection) protocol(era revision.Era) rpc.Protocol {
	if era == revision.Modern {
		return &c.modern
	}
	return c.session
}

func (c *connection) write(ctx context.Context, msg []byte) {
	if len(msg) == 0 {
		return
	}
	c.written(ctx, c.conn.Write(ctx, msg))
}

// written handles the error of writing a message, which may be nil.
func (c *connection) written(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	select {
	case <-c.session.Inflight().Closing: // a client that has closed one direction often closes both
		level = slog.LevelDebug
	default:
	}
	c.Logger.Log(ctx, level, "cannot write a message", "error", err)
	var broken *transport.WriteError
	if errors.As(err, &broken) { // the client would receive no more responses
		c.fail(err)
	}
}

// writeError answers with an error. If the id of the request could not be read, the error carries the id null before
// 2025-11-25, and none later. Only the reading goroutine writes such errors.
func (c *connection) writeError(ctx context.Context, id jsonrpc.ID, e *jsonrpc.Error) {
	nullID := id.IsZero() && !c.modernPeer && revision.NullErrorIDs.In(c.session.Revision)
	c.write(ctx, jsonrpc.AppendError(nil, id, e, nullID))
}

// job is an accepted request.
type job struct {
	protocol rpc.Protocol // has accepted call
	call     *rpc.Call
	pace     *pace
	slots    chan struct{} // the semaphore that limits requests of its kind; set by enqueue
}

func (c *connection) releaseSlots(slots int) {
	for range slots {
		<-c.slots
	}
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
