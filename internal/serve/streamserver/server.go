package streamserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/jsonrpc"
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
