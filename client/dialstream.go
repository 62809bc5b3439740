package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/streamwire"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// String implements Target.
func (t *Process) String() string { return "command " + filepath.Base(t.Path) }

func (t *Process) dial(ctx context.Context, d *Dialer) (*link, error) {
	options := t.CommandOptions
	if options.MaxMessage <= 0 {
		options.MaxMessage = d.MaxMessage
	}
	if options.Logger == nil && options.Stderr == nil {
		options.Logger = d.Logger
	}
	process, err := transport.Command(options)
	if err != nil {
		return nil, err
	}
	return d.dialStream(ctx, process, process.Started())
}

func (t *oneConn) dial(ctx context.Context, d *Dialer) (*link, error) {
	if t.used {
		return nil, fmt.Errorf("%w: a connection cannot be dialled again", call.ErrConnectionLost)
	}
	t.used = true
	return d.dialStream(ctx, t.conn, nil)
}

// dialStream finds out which era the server at the other end speaks (2026-07-28,
// basic/transports/stdio, Backward Compatibility). It closes conn if it fails.
func (d *Dialer) dialStream(ctx context.Context, conn transport.Conn, started <-chan struct{}) (*link, error) {
	p, err := d.newProbe(conn, started)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l, err := p.find(ctx)
	if err != nil {
		p.close()
		return nil, p.explain(err)
	}
	p.found.Store(true)
	return l, nil
}

// probe is a connection whose era is being found out. Both eras can be tried on it
// at the same time: their requests have ids of one series.
type probe struct {
	*Dialer
	conn   transport.Conn
	modern *modern.Client
	legacy *legacy.Client
	wire   *streamwire.Client
	found  atomic.Bool // the era is found out, and the connection in use
}

func (d *Dialer) newProbe(conn transport.Conn, started <-chan struct{}) (*probe, error) {
	m, l, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	ids := new(atomic.Int64)
	for _, o := range []*call.Outbound{&m.Outbound, &l.Outbound} {
		o.IDs, o.Started, o.StartAllowance = ids, started, d.Timeouts.Start
	}
	p := &probe{Dialer: d, conn: conn, modern: m, legacy: l}
	both := &bothEras{modern: m, legacy: l, lost: p.lost}
	both.ready.Add(1)
	p.wire = streamwire.NewClient(traced(conn, d.Trace), both, jsonrpc.Limits{})
	m.Wire, l.Wire = p.wire, p.wire
	both.ready.Done()
	return p, nil
}

func (p *probe) close() error {
	err := p.wire.Close()
	p.legacy.Close()
	return err
}

// discovered is what became of the question whether the server is modern.
type discovered struct {
	found *mcp.DiscoverResult
	info  *mcp.Implementation
	err   error
}

func (p *probe) find(ctx context.Context) (*link, error) {
	if r := p.Revision; r != "" && !r.Modern() {
		return p.shakeHands(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan discovered, 1)
	go func() {
		found, info, err := p.modern.Discover(ctx, p.discovery())
		answer <- discovered{found, info, err}
	}()
	patience := time.NewTimer(p.Timeouts.Probe)
	defer patience.Stop()
	select {
	case a := <-answer:
		if l, done, err := p.judge(a); done {
			return l, err
		}
		return p.shakeHands(ctx)
	case <-patience.C:
	}
	if p.Revision != "" {
		l, _, err := p.judge(<-answer)
		return l, err
	}
	// It may be an older server that answers nothing before the handshake, or one of
	// any age that is slow to start. Try the handshake too; should it turn out to be
	// modern, that counts.
	type shaken struct {
		l   *link
		err error
	}
	handshake := make(chan shaken, 1)
	go func() {
		l, err := p.shakeHands(ctx)
		handshake <- shaken{l, err}
	}()
	var legacyErr error
	for pending := 2; pending > 0; pending-- {
		select {
		case a := <-answer:
			answer = nil
			if l, done, err := p.judge(a); done {
				return l, err
			}
		case h := <-handshake:
			handshake = nil
			if h.err == nil {
				return h.l, nil
			}
			legacyErr = h.err
		}
	}
	return nil, legacyErr
}

// judge decides by the answer to server/discover. It is not done when the answer
// is one that only an older server gives.
func (p *probe) judge(a discovered) (l *link, done bool, err error) {
	if a.err == nil {
		r, err := p.choose(a.found.SupportedVersions)
		if err != nil {
			return nil, true, err
		}
		if r.Modern() {
			return modernLink(p.modern, a.found, a.info, p.close), true, nil
		}
		return nil, false, nil
	}
	if supported, ok := modern.Refused(a.err); ok {
		if _, err := p.choose(supported); err != nil {
			return nil, true, err
		}
		return nil, false, nil
	}
	lost := p.modern.Failed() != nil
	return nil, lost || modern.Recognised(a.err) || p.Revision != "", a.err
}

func (p *probe) shakeHands(ctx context.Context) (*link, error) {
	found, err := p.legacy.Handshake(ctx, p.offer(), p.info(), p.capabilities(), p.handshake())
	if err == nil {
		err = p.accept(found)
	}
	if err != nil {
		return nil, err
	}
	return legacyLink(p.legacy, found, p.close), nil
}

// explain adds how the server's process ended to an error that it caused.
func (p *probe) explain(err error) error {
	process, ok := p.conn.(*transport.Process)
	if !ok || !errors.Is(err, call.ErrConnectionLost) {
		return err
	}
	var exit *transport.ExitError
	if errors.As(process.Err(), &exit) && !errors.As(err, &exit) {
		return fmt.Errorf("%w: %w", err, exit)
	}
	return err
}

// lost tells OnLost of the end of a connection that was in use. A process that has
// closed its output is mostly about to exit, and how it does explains most.
func (p *probe) lost(err error) {
	if p.OnLost == nil || !p.found.Load() || errors.Is(err, call.ErrClosed) {
		return
	}
	if process, ok := p.conn.(*transport.Process); ok {
		select {
		case <-process.Done():
		case <-time.After(exitPatience):
		}
	}
	p.OnLost(p.explain(err))
}

// exitPatience is how long a process that has closed its output is given to exit
// before its connection is reported as lost.
const exitPatience = 500 * time.Millisecond

// bothEras hands what arrives to whichever era is waiting for it. Once one is
// chosen nobody waits on the other.
type bothEras struct {
	ready  sync.WaitGroup // the eras have their wire
	modern *modern.Client
	legacy *legacy.Client
	lost   func(error)
}

// Receive implements call.Receiver.
func (b *bothEras) Receive(m *jsonrpc.Message) {
	b.ready.Wait()
	if !b.modern.Outbound.Receive(m) || m.Kind == jsonrpc.Notification {
		b.legacy.Receive(m)
	}
}

// Unusable implements call.Receiver.
func (b *bothEras) Unusable(m *jsonrpc.Message, err error) {
	if !b.modern.Outbound.Unusable(m, err) {
		b.legacy.Unusable(m, err)
	}
}

// Lost implements call.Receiver.
func (b *bothEras) Lost(err error) {
	b.modern.Lost(err)
	b.legacy.Lost(err)
	b.lost(err)
}

// traced reports the messages on a connection to trace, if there is one.
func traced(conn transport.Conn, trace func(bool, []byte)) transport.Conn {
	if trace == nil {
		return conn
	}
	return &tracedConn{conn, trace}
}

type tracedConn struct {
	transport.Conn
	trace func(sent bool, message []byte)
}

func (t *tracedConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := t.Conn.Read(ctx)
	if err == nil {
		t.trace(false, msg)
	}
	return msg, err
}

func (t *tracedConn) Write(ctx context.Context, msg []byte) error {
	t.trace(true, msg)
	return t.Conn.Write(ctx, msg)
}
