package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/streamwire"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// String implements Target.
func (t *CommandTarget) String() string { return "command " + filepath.Base(t.Path) }

func (t *CommandTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	options := t.CommandOptions
	if options.MaxMessage <= 0 {
		options.MaxMessage = d.MaxMessage
	}
	if options.Logger == nil && options.Stderr == nil {
		options.Logger = d.Logger
	}
	process, err := transport.StartCommand(options)
	if err != nil {
		return nil, err
	}
	return d.dialStream(ctx, process, process.Started(), memory)
}

func (t *oneConn) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	if t.used.Swap(true) {
		return nil, errConnUsed
	}
	return d.dialStream(ctx, t.conn, nil, memory)
}

// dialStream finds out which era the server at the other end speaks (2026-07-28,
// basic/transports/stdio, Backward Compatibility). It closes conn if it fails.
func (d *Dialer) dialStream(ctx context.Context, conn transport.Conn, started <-chan struct{}, memory *Discovery) (*link, error) {
	p, err := d.newProbe(conn, started)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l, err := p.recall(ctx, memory)
	if l == nil && err == nil {
		l, err = p.find(ctx)
	}
	if err != nil {
		err = p.explain(err)
		p.close()
		return nil, err
	}
	p.found.Store(true)
	l.lose = p.both.Lost
	send := l.call
	l.call = func(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
		result, err := send(ctx, req)
		if err != nil {
			err = p.explain(err)
		}
		return result, err
	}
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
	both   *bothEras
	found  atomic.Bool // the era is found out, and the connection in use
}

func (d *Dialer) newProbe(conn transport.Conn, started <-chan struct{}) (*probe, error) {
	m, l, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	ids := new(atomic.Int64)
	for _, o := range []*rpc.Outbound{&m.Outbound, &l.Outbound} {
		o.IDs, o.Started, o.StartAllowance = ids, started, d.Timeouts.Start
	}
	p := &probe{Dialer: d, conn: conn, modern: m, legacy: l}
	both := &bothEras{modern: m, legacy: l, lost: p.lost}
	p.both = both
	both.ready.Add(1)
	p.wire = streamwire.NewClient(traced(conn, d.Trace), both, jsonrpc.Limits{})
	m.Wire, l.Wire = p.wire, p.wire
	both.ready.Done()
	return p, nil
}

func (p *probe) close() error {
	err := p.wire.Close()
	p.legacy.Close()
	p.both.telling.Wait()
	return err
}

// discovered is what became of the question whether the server is modern.
type discovered struct {
	found *mcp.DiscoverResult
	info  *mcp.Implementation
	err   error
}

// shaken is what became of the handshake.
type shaken struct {
	l   *link
	err error
}

// overlap is how long a server that has answered the handshake may take to answer
// server/discover, which it was asked before: a server of both eras can answer in
// any order, and one that only knows the handshake may never.
const overlap = 250 * time.Millisecond

func (p *probe) find(ctx context.Context) (*link, error) {
	if r := p.Revision; r != "" && !r.Modern() {
		return p.shakeHands(ctx)
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan discovered, 1)
	asking.Go(func() {
		found, info, err := p.modern.Discover(ctx, p.discovery())
		answer <- discovered{found, info, err}
	})
	var patience <-chan time.Time
	if p.Timeouts.Probe > 0 && p.Revision == "" {
		timer := time.NewTimer(p.Timeouts.Probe)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case a := <-answer:
		if l, done, err := p.judge(a); done {
			return l, err
		}
		return p.shakeHands(ctx)
	case <-patience:
	}
	// It may be an older server that answers nothing before the handshake, or one of
	// any age that is slow to start. Try the handshake too; should it turn out to be
	// modern, that counts.
	handshake := make(chan shaken, 1)
	asking.Go(func() {
		l, err := p.shakeHands(ctx)
		handshake <- shaken{l, err}
	})
	var last <-chan time.Time
	var found shaken
	for {
		select {
		case a := <-answer:
			l, done, err := p.judge(a)
			switch {
			case done:
				return l, err
			case handshake == nil:
				return found.l, found.err
			}
			answer = nil
		case found = <-handshake:
			switch {
			case answer == nil:
				return found.l, found.err
			case found.err == nil:
				last = time.After(overlap)
			}
			handshake = nil
		case <-last:
			return found.l, nil
		}
	}
}

// judge decides by the answer to server/discover. It is not done when the answer
// is one that only an older server gives.
func (p *probe) judge(a discovered) (l *link, done bool, err error) {
	if a.err == nil {
		r, err := p.choose(a.found.SupportedVersions)
		if err != nil {
			return nil, true, at(StageDiscover, err)
		}
		if r.Modern() {
			p.both.settle(p.modern)
			return modernLink(p.modern, p.close).discovered(a.found, a.info), true, nil
		}
		return nil, false, nil
	}
	if older, err := p.refused(a.err); err != nil || older {
		return nil, err != nil, at(StageDiscover, err)
	}
	lost := p.modern.Failed() != nil
	return nil, lost || modern.IsModernError(a.err) || p.Revision != "", at(StageDiscover, a.err)
}

func (p *probe) shakeHands(ctx context.Context) (*link, error) {
	found, err := p.legacy.Handshake(ctx, p.offer(), p.info(), p.sessionCapabilities(), p.handshake())
	if err == nil {
		err = p.accept(found)
	}
	if err != nil {
		return nil, at(StageInitialize, err)
	}
	return legacyLink(p.legacy, found, p.close), nil
}

// dying is how long a process that has closed its output may take to exit, so that
// the reason can be told.
const dying = 500 * time.Millisecond

// errExited is why a connection ends whose process does not fail, and is no server either.
var errExited = errors.New("the server process exited with code 0")

// explain adds how the server's process ended to an error that it caused.
func (p *probe) explain(err error) error {
	process, ok := p.conn.(*transport.CommandConn)
	var tooLarge *transport.MessageTooLargeError
	if !ok || !errors.Is(err, call.ErrConnectionLost) || errors.As(err, &tooLarge) {
		return err
	}
	timer := time.NewTimer(dying)
	defer timer.Stop()
	select {
	case <-process.Done():
	case <-timer.C:
		return err
	}
	if exit := process.Err(); exit != nil {
		return fmt.Errorf("%w: %w", err, exit)
	}
	return fmt.Errorf("%w: %w", err, errExited)
}

// lost tells OnConnectionLost of the end of a connection that was in use.
func (p *probe) lost(err error) {
	if p.OnConnectionLost != nil && p.found.Load() && !errors.Is(err, call.ErrClosed) {
		p.OnConnectionLost(p.explain(err))
	}
}

// bothEras hands what arrives to whichever era is waiting for it, until one is
// chosen. The other one then hears no more: a modern server that sent a request
// would get a response, which that era forbids (2026-07-28, basic/transports/stdio,
// Sending Messages).
type bothEras struct {
	ready  sync.WaitGroup // the eras have their wire
	modern *modern.Client
	legacy *legacy.Client
	chosen atomic.Pointer[rpc.Receiver]

	lost    func(error) // told once, by a goroutine of its own
	once    sync.Once
	telling sync.WaitGroup
}

func (b *bothEras) settle(on rpc.Receiver) { b.chosen.Store(&on) }

// Receive implements call.Receiver.
func (b *bothEras) Receive(m *jsonrpc.Message) {
	b.ready.Wait()
	if era := b.chosen.Load(); era != nil {
		(*era).Receive(m)
		return
	}
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
	b.once.Do(func() { b.telling.Go(func() { b.lost(err) }) })
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
