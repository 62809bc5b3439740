package streamserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// Server serves connections. Set its fields before it serves.
type Server struct {
	Modern *modern.Server
	Legacy *legacy.Server
	Logger *slog.Logger
	Limits jsonrpc.Limits
	// MaxInflight limits the concurrent requests of one connection. As many more requests
	// are queued. When the queue is full, the server stops reading. While an input request
	// has no response, it must go on reading, so it rejects further requests instead.
	MaxInflight int
	// KeepAlive is the period of pings to the client of a session. A client that does not
	// answer has lost its connection. 0 disables pings.
	KeepAlive time.Duration
	// Grace is how long requests may run after the client has closed its end, and how long
	// they may take to end after they are cancelled.
	Grace time.Duration
	// Piped means that the input of a connection may end long before its requests, as with `printf '…' | server`.
	// Requests may then run without a limit after the end of the input, as long as the client reads the output.
	Piped bool
}

// ErrNoMessage is returned by Serve if the client has closed the connection without a message.
var ErrNoMessage = errors.New("input ended before the first message")

// Serve serves one connection until the client closes it, ctx ends or the connection
// fails. Then it closes the connection. It returns nil if the client closed it after a
// complete message, and ErrNoMessage if it closed it before the first one.
//
// When the client closes its end, Serve finishes the requests in flight, so that `printf '…' | server` receives its
// responses: within the grace time, unless Piped is set. Then it cancels them, and sends the responses with which they
// end. Questions to the client fail at once. When drain ends, Serve rejects new requests and finishes those in flight,
// until ctx ends and cancels them. Meanwhile it still reads the responses to input requests.
func (s *Server) Serve(ctx, drain context.Context, conn transport.Conn, who principal.Principal) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	calls, cancelCalls := context.WithCancelCause(ctx)
	defer cancelCalls(nil)
	closing, endAccepting := context.WithCancel(ctx)
	c := &connection{
		Server:       s,
		conn:         asBatcher(conn),
		session:      s.Legacy.NewSession(who),
		slots:        make(chan struct{}, max(s.MaxInflight, 1)),
		queueSlots:   make(chan struct{}, max(s.MaxInflight, 1)),
		paces:        make(paces),
		jobs:         make(chan job),
		failed:       make(chan error, 1),
		fail:         cancel,
		ctx:          ctx,
		calls:        calls,
		reading:      reading,
		closing:      closing,
		endAccepting: endAccepting,
	}
	c.session.Source = rand.Text()
	defer c.stopAccepting()
	defer c.session.Close()
	// the requests of both share one set of ids
	c.modern, c.from = *s.Modern, rpc.Sender{Who: who}
	c.modern.Inflight = c.session.Inflight()
	c.session.Inflight().Closing = closing.Done()
	c.session.Inflight().Max = 0 // slots and queueSlots are the limits
	defer context.AfterFunc(drain, func() {
		c.stopAccepting() // ends subscriptions, so that they do not delay the rest
		c.running.Wait()
		stopReading()
	})()
	c.newTurn()
	err := <-c.failed
	c.stopAccepting()
	c.ignored.Flush(ctx, s.Logger)
	idle := make(chan struct{})
	go func() {
		c.running.Wait()
		c.goroutines.Wait()
		close(idle)
	}()
	grace, last := time.NewTimer(s.Grace), s.Grace
	defer grace.Stop()
	switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
	case cut, errors.Is(err, io.EOF):
		switch {
		case cut:
		case c.received:
			err = nil
		default:
			err = ErrNoMessage
		}
		c.session.EndInput()
		if !c.finish(ctx, conn, idle, grace.C) {
			cancelCalls(errInputEnded)
			last = s.Grace / 2 // half for responses, half for what does not end
			grace.Reset(last)
			select {
			case <-idle:
			case <-grace.C:
			case <-ctx.Done():
			}
		}
	case drain.Err() != nil: // the requests have ended or are cancelled
		err = nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	cancel(nil)
	conn.Close()
	grace.Reset(last)
	select {
	case <-idle:
	case <-grace.C:
		err = errors.Join(err, errors.New("handlers are still running after their calls were cancelled"))
	}
	return err
}

// errInputEnded is the cause with which requests are cancelled that outlive the input of their connection.
var errInputEnded = errors.New("the client has closed its end of the connection")

// finish waits until the requests have ended, after the input has. It reports false if they must not run longer.
func (c *connection) finish(ctx context.Context, conn transport.Conn, idle <-chan struct{},
	grace <-chan time.Time) bool {
	var again <-chan time.Time
	if c.Piped {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		again = ticker.C
	}
	reader, _ := conn.(interface{ PeerReads() bool })
	for over := false; ; {
		select {
		case <-idle:
			return true
		case <-ctx.Done():
			return true
		case <-grace:
			over = true
		case <-again:
		}
		if over && !(c.Piped && reader != nil && reader.PeerReads()) {
			return false
		}
	}
}

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

// receive processes one message. It returns when the message has been processed or
// another goroutine processes it. It blocks while the queue of requests is full.
func (t *turn) receive(ctx context.Context, data []byte) {
	c := t.c
	if jsonrpc.IsBatch(data) {
		c.batch(ctx, data)
		return
	}
	m := new(jsonrpc.Message)
	if err := m.Parse(data, c.Limits); err != nil {
		c.malformed(ctx, m, err)
		return
	}
	class := revision.Classify(revision.Input{Message: m, Agreed: c.session.Revision})
	switch m.Kind {
	case jsonrpc.Notification:
		c.notified(ctx, m, class)
		return
	case jsonrpc.Response:
		c.session.ReceiveResponse(m)
		return
	}
	c.modernPeer = c.modernPeer || class.Era == revision.Modern
	p := c.protocol(class.Era)
	inOrder := p.InOrder(m)
	accepted, fault := p.NewCall(c.from, m, class)
	if fault == nil {
		fault = p.Begin(ctx, accepted, c.conn)
	}
	switch {
	case fault != nil:
		c.writeError(ctx, m.ID, fault)
	case inOrder:
		var reply []byte
		p.AppendReply(&reply, accepted)
		c.write(ctx, reply)
	case m.Method == mcp.MethodPing && class.Era == revision.Legacy:
		c.ping(ctx, p, accepted)
	default:
		t.enqueue(ctx, job{p, accepted, c.paces.of(m), c.slotsOf(m.Method)})
	}
}

// malformed answers a malformed message. It does not answer a malformed notification or
// response: two peers could answer each other for ever.
func (c *connection) malformed(ctx context.Context, m *jsonrpc.Message, err error) {
	if c.session.ReceiveInvalid(m, err) { // the input request that waits for it fails
		return
	}
	var invalid *jsonrpc.InvalidMessageError
	if m.Kind == jsonrpc.Response || m.Kind == jsonrpc.Notification || !errors.As(err, &invalid) {
		c.ignored.Log(ctx, c.Logger, slog.LevelWarn, "malformed message ignored", slog.Any("error", err))
		return
	}
	c.writeError(ctx, m.ID, invalid.Wire())
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

// notified processes a notification of either era. Cancellations of both eras go to the
// session, since the requests of both share one set of ids.
func (c *connection) notified(ctx context.Context, m *jsonrpc.Message, class revision.Class) {
	c.session.ReceiveNotification(m)
	if m.Method == mcp.NotificationInitialized {
		c.startNotifications(ctx)
	}
	c.paused.Store(true)
	c.protocol(class.Era).ServeNotification(ctx, c.from, m, class)
	c.paused.Store(false)
}
