package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/dial/streamclient"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// probe finds out the era of the server on a byte stream; over HTTP, dialNewest does. Requests of both eras may be in
// flight on the stream; they share one series of IDs.
type probe struct {
	*Dialer
	conn   transport.Conn
	modern *modern.Client
	legacy *legacy.Client
	wire   *streamclient.Client
	eras   *eraSwitch

	began       time.Time
	startBy     time.Time       // the latest time at which time-outs begin; see Timeouts.Start
	first       mcp.Revision    // the revision to offer in a handshake without server/discover; may be empty
	offered     mcp.Revision    // the revision of the last handshake; empty if there was none
	discovering bool            // server/discover was sent
	watching    sync.WaitGroup  // see watchLoss
	ended       <-chan struct{} // closed when the probe has failed and its connection is closed
}

// newProbe returns a probe of the server at the other end of conn. It closes conn if it fails.
func (d *Dialer) newProbe(conn transport.Conn, started <-chan struct{}) (*probe, error) {
	m, l, err := d.newEras(true)
	if err != nil {
		conn.Close()
		return nil, err
	}
	ids := new(atomic.Int64)
	began := time.Now()
	startBy := began.Add(d.Timeouts.Start)
	for _, o := range []*outbound.Requests{&m.Requests, &l.Requests} {
		o.IDs, o.Started, o.StartBy = ids, started, startBy
	}
	p := &probe{Dialer: d, conn: conn, modern: m, legacy: l, began: began, startBy: startBy}
	_, command := conn.(*transport.CommandConn)
	p.eras = &eraSwitch{modern: m, legacy: l, command: command}
	p.eras.ready.Add(1)
	p.wire = streamclient.NewClient(traced(conn, d.Trace), p.eras, jsonrpc.Limits{})
	m.Wire, l.Wire = p.wire, p.wire
	p.eras.ready.Done()
	return p, nil
}

func (p *probe) close() error {
	err := outbound.Close(p.wire, &p.modern.Requests, &p.legacy.Requests)
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

// find finds out the era. The server may be an older one that answers nothing before the
// handshake, so it gets a limited time to answer server/discover. After that the answer to
// the handshake decides: a server that accepts it stays a legacy server for the life of the
// process or connection, whatever it answers to server/discover later (2026-07-28,
// basic/versioning, Compatibility Matrix).
func (p *probe) find(ctx context.Context) (*link, error) {
	if r := p.Revision; r != "" && !r.Modern() || p.first != "" {
		return p.handshake(ctx)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.discovering = true
	discovered := make(chan discoverOutcome, 1)
	running.Go(func() {
		found, info, err := p.modern.Discover(ctx, p.discoverRequest())
		discovered <- discoverOutcome{found, info, err}
	})
	var probeOver chan struct{}
	if p.Timeouts.Probe > 0 && p.Revision == "" {
		probeOver = make(chan struct{})
		running.Go(func() {
			defer close(probeOver)
			p.awaitSilence(ctx)
		})
	}
	select {
	case d := <-discovered:
		if l, done, err := p.decide(d); done {
			return l, err
		}
		return p.handshake(ctx)
	case <-probeOver:
	}
	l, err := p.handshake(ctx)
	var rejection *jsonrpc.Error
	if !errors.As(err, &rejection) { // without an answer, the server may still accept the handshake
		return l, err
	}
	if l, done, err := p.decide(<-discovered); done {
		return l, err
	}
	return nil, err
}

// awaitSilence returns Timeouts.Probe after the server has started, or when ctx ends.
func (p *probe) awaitSilence(ctx context.Context) {
	p.awaitStart(ctx)
	timer := time.NewTimer(p.Timeouts.Probe)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// startPoll is the interval in which the client checks whether a command has read its input.
const startPoll = 20 * time.Millisecond

// awaitStart waits until a command has started: it has written output or read
// server/discover. It waits until startBy at the latest.
func (p *probe) awaitStart(ctx context.Context) {
	process, ok := p.conn.(*transport.CommandConn)
	if !ok || p.Timeouts.Start <= 0 {
		return
	}
	allowance := time.NewTimer(time.Until(p.startBy))
	defer allowance.Stop()
	poll := time.NewTicker(startPoll)
	defer poll.Stop()
	for !process.InputRead() {
		select {
		case <-poll.C:
		case <-process.Started():
			return
		case <-allowance.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// decide examines the outcome of server/discover. done is false if an older server may
// have answered like that.
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
	found, offered, err := p.Dialer.handshake(ctx, p.legacy, cmp.Or(p.first, p.offer()))
	p.offered = offered
	if err != nil {
		return nil, at(StageInitialize, err)
	}
	p.eras.choose(p.legacy)
	return legacyLink(p.legacy, found, p.close), nil
}

// offer returns the revision to offer first in a handshake.
func (d *Dialer) offer() mcp.Revision { return cmp.Or(d.Revision, mcp.LatestLegacy) }

// handshake performs the handshake. It offers a revision and, while the server rejects it, older ones. It also
// returns the revision that it offered last. initialize has no effect that lasts, so it may be sent again.
func (d *Dialer) handshake(ctx context.Context, era *legacy.Client,
	offer mcp.Revision) (*mcp.InitializeResult, mcp.Revision, error) {
	var rejection error // the first rejection
	for {
		found, err := era.Handshake(ctx, offer, d.info(), d.sessionCapabilities(), d.handshakeRequest())
		if err == nil {
			err = d.checkRevision(found)
		}
		older, rejected := d.rejected(err, offer)
		if rejected {
			rejection = cmp.Or(rejection, err)
			err = rejection
		}
		if older == "" {
			return found, offer, err
		}
		offer = older
	}
}

// rejected reports whether the error of initialize rejects the revision that was offered, and returns the best older
// revision: the newest one that the error names, or the next older one if it names none. Servers name them in the data
// of the error (2025-11-25, basic/lifecycle, Error Handling) or in its text. The result is empty if Dialer.Revision
// allows no other revision, or if the error names only revisions without sessions.
func (d *Dialer) rejected(err error, offer mcp.Revision) (older mcp.Revision, rejected bool) {
	code, text := reported(err)
	if !mayRejectRevision(code, text) {
		return "", false
	}
	namesModern := false
	for _, r := range mcp.Revisions() { // the newest first
		switch named := strings.Contains(text, string(r)); {
		case r.Modern():
			namesModern = namesModern || named
		case r >= offer:
		case named:
			return d.unlessFixed(r), true
		case older == "":
			older = r
		}
	}
	if namesModern {
		older = ""
	}
	return d.unlessFixed(older), true
}

func (d *Dialer) unlessFixed(r mcp.Revision) mcp.Revision {
	if d.Revision != "" {
		return ""
	}
	return r
}

// mayRejectRevision reports whether the error of initialize can mean that the server rejects the revision: its code
// says so, or its text contains the word version and mentions the protocol, the params or a revision.
func mayRejectRevision(code int64, text string) bool {
	if code == mcp.CodeUnsupportedVersion {
		return true
	}
	text = strings.ToLower(text)
	return strings.Contains(text, "version") && (code == jsonrpc.CodeInvalidParams ||
		strings.Contains(text, "protocol") ||
		slices.ContainsFunc(mcp.Revisions(), func(r mcp.Revision) bool { return strings.Contains(text, string(r)) }))
}

// reported returns what a server reports in an error: the code, the message and the data of a JSON-RPC error, or the
// body of a response over HTTP. The text is empty for other errors.
func reported(err error) (code int64, text string) {
	var reported *jsonrpc.Error
	var rejection *httpclient.Rejection
	switch {
	case errors.As(err, &reported):
		return reported.Code, reported.Message + " " + string(reported.Data)
	case errors.As(err, &rejection):
		return 0, rejection.Body
	}
	return 0, ""
}

// checkRevision checks the revision in the result of the handshake.
func (d *Dialer) checkRevision(found *mcp.InitializeResult) error {
	if d.Revision != "" && found.ProtocolVersion != d.Revision {
		return fmt.Errorf("%w: the server chose %s", call.ErrRevision, found.ProtocolVersion)
	}
	return nil
}

// eraSwitch delivers received messages to the era that waits for them, until one era is
// chosen. From then on, the other era receives nothing. Otherwise it might answer a
// request of the server, which 2026-07-28 forbids (basic/transports/stdio, Sending
// Messages).
type eraSwitch struct {
	ready  sync.WaitGroup // done when both eras have a wire
	modern *modern.Client
	legacy *legacy.Client
	chosen atomic.Pointer[outbound.Receiver]
	first  atomic.Pointer[error] // of the first message that is not valid, before an era is chosen

	command bool        // the server is a program
	advised atomic.Bool // an error has said where a program may print
}

func (s *eraSwitch) choose(era outbound.Receiver) { s.chosen.Store(&era) }

// Receive implements outbound.Receiver.
func (s *eraSwitch) Receive(m *jsonrpc.Message) {
	s.ready.Wait()
	if era := s.chosen.Load(); era != nil {
		(*era).Receive(m)
		return
	}
	if !s.modern.Requests.Receive(m) || m.Kind == jsonrpc.Notification {
		s.legacy.Receive(m)
	}
}

// ReceiveInvalid implements outbound.Receiver.
func (s *eraSwitch) ReceiveInvalid(m *jsonrpc.Message, err error) {
	first := err
	if s.command && m.Kind == jsonrpc.Invalid && s.advised.CompareAndSwap(false, true) {
		err = fmt.Errorf("%w; standard output carries the protocol, so print to standard error (in Python: "+
			"file=sys.stderr)", err)
	}
	if era := s.chosen.Load(); era != nil {
		(*era).ReceiveInvalid(m, err)
		return
	}
	s.first.CompareAndSwap(nil, &first)
	if !s.modern.Requests.ReceiveInvalid(m, err) {
		s.legacy.ReceiveInvalid(m, err)
	}
}

// Lost implements outbound.Receiver. The first call sets the error for both eras.
func (s *eraSwitch) Lost(err error) {
	s.modern.Lost(err)
	s.legacy.Lost(s.modern.Failed())
}
