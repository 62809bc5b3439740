package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/streamwire"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// probe finds out the era of the server on a byte stream. Requests of both eras may be in
// flight on it; their ids are from one series.
type probe struct {
	*Dialer
	conn   transport.Conn
	modern *modern.Client
	legacy *legacy.Client
	wire   *streamwire.Client
	eras   *eraSwitch

	watching sync.WaitGroup // see watchLoss
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
	p.eras = &eraSwitch{modern: m, legacy: l}
	p.eras.ready.Add(1)
	p.wire = streamwire.NewClient(traced(conn, d.Trace), p.eras, jsonrpc.Limits{})
	m.Wire, l.Wire = p.wire, p.wire
	p.eras.ready.Done()
	return p, nil
}

func (p *probe) close() error {
	err := p.wire.Close()
	p.legacy.Close()
	p.watching.Wait()
	return err
}

// discoverOutcome is the outcome of server/discover.
type discoverOutcome struct {
	found *mcp.DiscoverResult
	info  *mcp.Implementation
	err   error
}

// handshakeOutcome is the outcome of the handshake.
type handshakeOutcome struct {
	l   *link
	err error
}

// overlap is how long a server may take to answer server/discover after it has answered the
// later handshake: a server of both eras may answer in any order, and an older server may
// never answer server/discover.
const overlap = 250 * time.Millisecond

func (p *probe) find(ctx context.Context) (*link, error) {
	if r := p.Revision; r != "" && !r.Modern() {
		return p.handshake(ctx)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	discovered := make(chan discoverOutcome, 1)
	running.Go(func() {
		found, info, err := p.modern.Discover(ctx, p.discoverRequest())
		discovered <- discoverOutcome{found, info, err}
	})
	var probeOver <-chan time.Time
	if p.Timeouts.Probe > 0 && p.Revision == "" {
		timer := time.NewTimer(p.Timeouts.Probe)
		defer timer.Stop()
		probeOver = timer.C
	}
	select {
	case d := <-discovered:
		if l, done, err := p.decide(d); done {
			return l, err
		}
		return p.handshake(ctx)
	case <-probeOver:
	}
	// The server may be an older one, which answers nothing before the handshake, or one that
	// starts slowly. Try the handshake too. If server/discover succeeds after all, it counts.
	handshook := make(chan handshakeOutcome, 1)
	running.Go(func() {
		l, err := p.handshake(ctx)
		handshook <- handshakeOutcome{l, err}
	})
	var overlapOver <-chan time.Time
	var session handshakeOutcome
	for {
		select {
		case d := <-discovered:
			l, done, err := p.decide(d)
			switch {
			case done:
				return l, err
			case handshook == nil:
				return session.l, session.err
			}
			discovered = nil
		case session = <-handshook:
			switch {
			case discovered == nil:
				return session.l, session.err
			case session.err == nil:
				overlapOver = time.After(overlap)
			}
			handshook = nil
		case <-overlapOver:
			return session.l, nil
		}
	}
}

// decide examines the outcome of server/discover. done is false if it is one of an older
// server.
func (p *probe) decide(d discoverOutcome) (l *link, done bool, err error) {
	if d.err == nil {
		r, err := p.choose(d.found.SupportedVersions)
		if err != nil {
			return nil, true, at(StageDiscover, err)
		}
		if r.Modern() {
			p.eras.choose(p.modern)
			return modernLink(p.modern, p.close).discovered(d.found, d.info), true, nil
		}
		return nil, false, nil
	}
	if older, err := p.rejectsRevision(d.err); err != nil || older {
		return nil, err != nil, at(StageDiscover, err)
	}
	lost := p.modern.Failed() != nil
	return nil, lost || modern.IsModernError(d.err) || p.Revision != "", at(StageDiscover, d.err)
}

func (p *probe) handshake(ctx context.Context) (*link, error) {
	found, err := p.legacy.Handshake(ctx, p.offer(), p.info(), p.sessionCapabilities(), p.handshakeRequest())
	if err == nil {
		err = p.checkRevision(found)
	}
	if err != nil {
		return nil, at(StageInitialize, err)
	}
	return legacyLink(p.legacy, found, p.close), nil
}
