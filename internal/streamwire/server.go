package streamwire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// Server serves connections. Its fields are set before it serves.
type Server struct {
	Modern *modern.Server
	Legacy *legacy.Server
	Logger *slog.Logger
	Limits jsonrpc.Limits
	// MaxInflight is how many requests of one connection are served at a time. As many
	// wait. Then reading stops; but while the client is being asked something, whose
	// answer must be read, further requests are refused instead.
	MaxInflight int
	// KeepAlive is how often the client of a session is asked whether it is there. One
	// that does not answer has lost its connection. 0: never.
	KeepAlive time.Duration
	Grace     time.Duration // how long requests may take once the peer has closed its end, and to end once cancelled
}

// Serve serves one connection until the peer closes it, ctx ends or the
// connection fails, and then closes it. That the peer closed it is no error.
//
// Requests in flight are finished first, so that `printf '…' | server` gets its
// answers: within the grace time, since the peer may wait for us to exit. The end
// of drain has that effect too, but then requests may take until ctx ends, which
// cancels them; what they ask of the peer is answered meanwhile, and requests that
// come are refused.
func (s *Server) Serve(ctx, drain context.Context, conn transport.Conn, who principal.Principal) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	closing, closeUp := context.WithCancel(ctx)
	l := &link{
		Server:  s,
		conn:    conn,
		who:     who,
		session: s.Legacy.NewSession(who),
		slots:   make(chan struct{}, max(s.MaxInflight, 1)),
		line:    make(chan struct{}, max(s.MaxInflight, 1)),
		jobs:    make(chan job),
		broken:  cancel,
		closing: closing,
		closeUp: closeUp,
	}
	defer l.refuseMore()
	defer l.session.Close()
	l.session.Inflight().Closing = closing.Done()
	defer context.AfterFunc(drain, func() {
		l.refuseMore() // subscriptions end, and do not keep the others waiting
		l.running.Wait()
		stopReading()
	})()
	err := l.read(ctx, reading)
	l.refuseMore()
	idle := make(chan struct{})
	go func() {
		l.running.Wait()
		close(idle)
	}()
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	switch {
	case errors.Is(err, io.EOF):
		err = nil
		select {
		case <-idle:
		case <-grace.C:
		case <-ctx.Done():
		}
	case drain.Err() != nil: // all is done, or cancelled
		err = nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	cancel(nil)
	conn.Close()
	grace.Reset(s.Grace)
	select {
	case <-idle:
	case <-grace.C:
		err = errors.Join(err, errors.New("handlers are still running after their calls were cancelled"))
	}
	return err
}

// link is one connection being served.
type link struct {
	*Server
	conn    transport.Conn
	who     principal.Principal
	session *legacy.Session // this connection's, for messages of the handshake era
	modern  bool            // a request of the stateless era has come
	slots   chan struct{}
	stays   chan struct{}           // slots of subscriptions; made when first needed
	stuck   atomic.Bool             // nothing is read, for want of a slot or while a notification is taken
	tells   bool                    // the session's client is told of changes
	broken  context.CancelCauseFunc // the connection does not take our answers

	jobs chan job     // unbuffered: to goroutines that are idle
	idle atomic.Int32 // how many there are

	pings atomic.Int32 // pings that are being served

	line   chan struct{} // has room for those that may wait for a slot
	queued rpc.Inflight  // those that wait

	mu      sync.Mutex // orders what begins against closeUp
	running sync.WaitGroup
	closing context.Context // ends when no more requests are wanted
	closeUp context.CancelFunc
}

// begin counts one more that is running, unless no more are wanted.
func (l *link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() != nil {
		return false
	}
	l.running.Add(1)
	return true
}

func (l *link) refuseMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeUp()
}

// errClosing answers requests that come when no more are wanted.
var errClosing = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is shutting down: try again later"}

func (l *link) read(ctx, reading context.Context) error {
	for {
		data, err := l.conn.Read(reading)
		if err == nil {
			l.message(ctx, data)
			continue
		}
		var tooLarge *transport.MessageTooLargeError
		if !errors.As(err, &tooLarge) {
			return err
		}
		l.refuse(ctx, jsonrpc.ID{}, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the message is larger than %d bytes", tooLarge.Limit))
	}
}

// message takes one message. It returns when the message is dealt with or a
// goroutine is dealing with it; it waits while too many requests wait for a slot.
func (l *link) message(ctx context.Context, data []byte) {
	if jsonrpc.IsBatch(data) {
		l.batch(ctx, data)
		return
	}
	m := new(jsonrpc.Message)
	if err := m.Parse(data, l.Limits); err != nil {
		l.malformed(ctx, m, err)
		return
	}
	switch m.Kind {
	case jsonrpc.Notification:
		l.session.ReceiveNotification(m) // of either era: what they have in flight is one set
		switch m.Method {
		case mcp.NotificationCancelled:
			l.queued.Cancel(revision.CancelledID(m), call.ErrCancelled)
		case mcp.NotificationInitialized:
			l.tell(ctx)
		}
		l.stuck.Store(true)
		if class := l.classify(m); class.Era == revision.Modern {
			l.Modern.ServeNotification(ctx, m, class, l.who, "")
		} else {
			l.session.ServeNotification(ctx, m)
		}
		l.stuck.Store(false)
	case jsonrpc.Response:
		l.session.ReceiveResponse(m)
	case jsonrpc.Request:
		class := l.classify(m)
		l.modern = l.modern || class.Era == revision.Modern
		switch {
		case class.Era == revision.Legacy && (!l.session.Initialized() || m.Method == mcp.MethodInitialize):
			l.write(ctx, l.session.Serve(ctx, nil, m, l.conn)) // in order: the handshake decides how to read the next message
		case class.Era == revision.Legacy && m.Method == mcp.MethodPing:
			l.ping(ctx, m)
		default:
			l.admit(ctx, m, class)
		}
	}
}

func (l *link) classify(m *jsonrpc.Message) revision.Class {
	return revision.Classify(revision.Input{Message: m, Agreed: l.session.Revision})
}

// admit has a request served, when it has a slot.
func (l *link) admit(ctx context.Context, m *jsonrpc.Message, class revision.Class) {
	if !l.begin() {
		l.refuse(ctx, m.ID, errClosing)
		return
	}
	slots := l.slots
	if class.Era == revision.Modern && rpc.Stays(m.Method) {
		slots = l.staying()
	}
	select {
	case slots <- struct{}{}:
		l.start(ctx, job{m, class, slots})
		return
	default:
	}
	select {
	case l.line <- struct{}{}:
		l.await(ctx, m, class, slots)
		return
	default:
	}
	l.stuck.Store(true)
	defer l.stuck.Store(false)
	select {
	case slots <- struct{}{}:
		l.start(ctx, job{m, class, slots})
	case l.line <- struct{}{}:
		l.await(ctx, m, class, slots)
	case <-l.session.AwaitingInput():
		l.running.Done()
		l.refuse(ctx, m.ID, errFull)
	case <-ctx.Done():
		l.running.Done()
	}
}

// maxPings limits the pings that are served at the same time.
const maxPings = 16

// ping serves a ping in another goroutine, since middleware may block and the next message may be what
// it waits for. It is not queued: a client sends pings to learn that the server is alive.
func (l *link) ping(ctx context.Context, m *jsonrpc.Message) {
	if l.pings.Add(1) > maxPings {
		l.pings.Add(-1)
		l.refuse(ctx, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many pings at the same time: try again later"})
		return
	}
	counted := l.begin() // false while the server shuts down: the ping is answered all the same
	go func() {
		l.write(ctx, l.session.Serve(ctx, nil, m, nil))
		l.pings.Add(-1)
		if counted {
			l.running.Done()
		}
	}()
}

// errFull answers requests that come while as many as may wait do, some of them for
// the client.
var errFull = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests wait, some for answers of this client: send it again when they are answered"}

// await has a request wait for a slot while the reading goes on: what frees one can
// be the peer's answer to a question, or its cancellation, that comes next.
func (l *link) await(ctx context.Context, m *jsonrpc.Message, class revision.Class, slots chan struct{}) {
	waiting, err := l.queued.Begin(ctx, m.ID)
	if err != nil {
		<-l.line
		l.running.Done()
		l.refuse(ctx, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
		return
	}
	go func() {
		admitted := false
		select {
		case slots <- struct{}{}:
			admitted = true
		case <-waiting.Done():
		}
		wanted := l.queued.End(m.ID)
		<-l.line
		if admitted && wanted {
			l.request(ctx, job{m, class, slots})
			return
		}
		if admitted {
			<-slots
		}
		l.running.Done()
	}()
}

// staying returns the slots of subscriptions, which leave those of other requests
// alone. Twice as many as there may be, since some will be those that are refused, or
// cancelled and not quite done.
func (l *link) staying() chan struct{} {
	if l.stays == nil {
		l.stays = make(chan struct{}, 2*rpc.MaxSubscriptions)
	}
	return l.stays
}

// job is a request that has one of slots.
type job struct {
	m     *jsonrpc.Message
	class revision.Class
	slots <-chan struct{}
}

// maxIdle bounds the goroutines that wait for another request. A goroutine that has
// served one has a stack of the size that it takes; growing a new one takes about as
// long as all the rest of a short call.
const maxIdle = 64

// start has a goroutine serve a request: an idle one, or a new one.
func (l *link) start(ctx context.Context, j job) {
	select {
	case l.jobs <- j:
	default:
		go l.work(ctx, j)
	}
}

func (l *link) work(ctx context.Context, j job) {
	for {
		l.request(ctx, j)
		if l.idle.Add(1) > maxIdle {
			l.idle.Add(-1)
			return
		}
		select {
		case j = <-l.jobs:
			l.idle.Add(-1)
		case <-l.closing.Done():
			return
		}
	}
}

// request serves one request and writes its response.
func (l *link) request(ctx context.Context, j job) {
	m, slots := j.m, j.slots
	buf := buffers.Get().(*[]byte)
	served := false
	defer func() {
		if !served { // the handler ended this goroutine
			l.refuse(ctx, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"})
		}
		<-slots
		l.running.Done()
	}()
	reply := (*buf)[:0]
	if j.class.Era == revision.Modern {
		reply = l.Modern.Serve(ctx, reply, m, j.class, l.who, l.conn, l.session.Inflight())
	} else {
		reply = l.session.Serve(ctx, reply, m, l.conn)
	}
	served = true
	l.write(ctx, reply)
	if cap(reply) <= maxPooled {
		*buf = reply
		buffers.Put(buf)
	}
}

// buffers are those that responses are encoded into. Nobody else sees them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that is kept: a large result's, with some room.
const maxPooled = 2 << 20

func (l *link) write(ctx context.Context, msg []byte) {
	if len(msg) == 0 {
		return
	}
	err := l.conn.Write(ctx, msg)
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	select {
	case <-l.session.Inflight().Closing: // whoever has closed one end has often closed the other
		level = slog.LevelDebug
	default:
	}
	l.Logger.Log(ctx, level, "message lost: the connection does not take it", "error", err)
	var broken *transport.WriteError
	if errors.As(err, &broken) { // nobody would learn what becomes of further requests
		l.broken(err)
	}
}

// malformed answers what is not a message, unless it was meant as a notification,
// which is never answered, or as a response: answering those could go on for ever.
func (l *link) malformed(ctx context.Context, m *jsonrpc.Message, err error) {
	if l.session.Unusable(m, err) { // whoever has asked is told
		return
	}
	var invalid *jsonrpc.InvalidMessageError
	if m.Kind == jsonrpc.Response || m.Kind == jsonrpc.Notification || !errors.As(err, &invalid) {
		l.Logger.WarnContext(ctx, "message ignored", "error", err)
		return
	}
	l.refuse(ctx, m.ID, invalid.Wire())
}

// refuse answers with an error. A message whose id could not be read is answered
// with the id null, as JSON-RPC has it, or without one to a peer of 2025-11-25 or
// later, as the schema has it. Only the reading goroutine refuses those.
func (l *link) refuse(ctx context.Context, id jsonrpc.ID, e *jsonrpc.Error) {
	nullID := id.IsZero() && !l.modern && revision.NullErrorIDs.In(l.session.Revision)
	l.write(ctx, jsonrpc.AppendError(nil, id, e, nullID))
}
