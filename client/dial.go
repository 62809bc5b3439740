package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// String returns the URL without user information, query and fragment, which may be secrets.
func (t *HTTPTarget) String() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "malformed URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func (t *HTTPTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, at(StageTarget, errors.New("the URL must begin with http:// or https:// and have a host"))
	}
	options := httpclient.Options{
		URL: t.URL, HTTP: d.HTTPClient, Header: make(http.Header), Logger: d.Logger, MaxMessage: d.MaxMessage,
		Trace:         d.Trace,
		DetectSilence: d.KeepAlive >= 0 && d.Timeouts.Ping > 0,
	}
	for name, values := range t.Header { // spelled in any way, and perhaps in two
		name = http.CanonicalHeaderKey(name)
		options.Header[name] = append(options.Header[name], values...)
	}
	for name, values := range d.Header {
		name = http.CanonicalHeaderKey(name)
		if options.Header[name] = values; len(values) == 0 {
			delete(options.Header, name)
		}
	}
	if d.Auth != nil {
		options.Auth = d.Auth
	}
	if l, err := d.recallHTTP(ctx, options, memory); l != nil || err != nil {
		return l, err
	}
	switch {
	case d.Revision == mcp.V20241105:
		return d.dialSSE(ctx, options)
	case d.Revision != "" && !d.Revision.Modern():
		return d.dialSession(ctx, options)
	}
	return d.dialNewest(ctx, options)
}

func (d *Dialer) dialModern(ctx context.Context, options httpclient.Options) (*link, error) {
	era, _, err := d.newEras(false)
	if err != nil {
		return nil, err
	}
	wire := httpclient.NewClient(options, true, era)
	era.Wire = wire
	found, info, err := era.Discover(ctx, d.discoverRequest())
	if err == nil {
		var r mcp.Revision
		if r, err = d.choose(found.SupportedVersions); err == nil && r.Modern() {
			l := modernLink(era, func() error { return outbound.Close(wire, &era.Requests) }).discovered(found, info)
			l.mirrors = true
			return l, nil
		}
	}
	wire.Close()
	if err == nil { // the server answers in 2026-07-28 but lists only older revisions
		err = fmt.Errorf("%w: server/discover lists no modern revision", call.ErrInvalidResponse)
	}
	return nil, at(StageDiscover, err)
}

func (d *Dialer) dialSession(ctx context.Context, options httpclient.Options) (*link, error) {
	_, era, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	wire := httpclient.NewClient(options, false, era)
	l, err := d.beginSession(ctx, era, wire)
	if err == nil {
		l.session = wire.HasSession()
	}
	return l, err
}

// dialSSE opens an HTTP+SSE pair. It tries again if the replica that serves the event stream stops before the
// handshake.
func (d *Dialer) dialSSE(ctx context.Context, options httpclient.Options) (*link, error) {
	for attempt := 0; ; attempt++ {
		l, err := d.openSSE(ctx, options)
		if attempt == maxRepeats || !errors.Is(err, httpclient.ErrSessionGone) {
			return l, err
		}
	}
}

func (d *Dialer) openSSE(ctx context.Context, options httpclient.Options) (*link, error) {
	_, era, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	wire, err := httpclient.DialPair(ctx, d.Timeouts.Initialize, options, era)
	if err != nil {
		era.Close()
		return nil, at(StageConnect, err)
	}
	l, err := d.beginSession(ctx, era, wire)
	if err == nil {
		l.sse = true
	}
	return l, err
}

// beginSession performs the handshake. It closes wire if the handshake fails.
func (d *Dialer) beginSession(ctx context.Context, era *legacy.Client, wire outbound.Wire) (*link, error) {
	era.Wire = wire
	closeAll := func() error {
		err := outbound.Close(wire, &era.Requests)
		era.Close()
		return err
	}
	found, _, err := d.handshake(ctx, era, d.offer())
	if err != nil {
		d.endings.add(closeAll)
		return nil, at(StageInitialize, err)
	}
	return legacyLink(era, found, closeAll), nil
}

// String returns the name of the program, without its directory and arguments.
func (t *CommandTarget) String() string { return "command " + filepath.Base(t.Path) }

// dial starts the process. Some servers exit on a message that they do not expect before initialize, or when they have
// rejected a revision. Such a process is started again, with initialize as the first message.
func (t *CommandTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	l, next, err := t.start(ctx, d, "", memory)
	for range maxRestarts {
		if next == "" || ctx.Err() != nil {
			break
		}
		l, next, err = t.start(ctx, d, next, nil)
	}
	return l, err
}

// maxRestarts is how often a process is started again in one Dial: once after server/discover, and once after a
// revision that it has rejected.
const maxRestarts = 2

// start starts the process and connects to it. If first is not empty, it sends initialize with that revision, and
// nothing before it. If the process exits because of a message, next is the revision to start with instead.
func (t *CommandTarget) start(ctx context.Context, d *Dialer, first mcp.Revision,
	memory *Discovery) (_ *link, next mcp.Revision, _ error) {
	options := t.CommandOptions
	if options.MaxMessage <= 0 {
		options.MaxMessage = d.MaxMessage
	}
	if options.Logger == nil && options.Stderr == nil {
		options.Logger = d.Logger
	}
	process, err := transport.StartCommand(options)
	if err != nil {
		return nil, "", err
	}
	p, err := d.newProbe(process, process.Started())
	if err != nil {
		return nil, "", err
	}
	p.first = first
	l, err := p.connect(ctx, memory)
	if err == nil || !errors.Is(err, call.ErrConnectionLost) || p.Revision != "" {
		return l, "", err
	}
	select {
	case <-p.ended: // two processes never run at the same time
	case <-ctx.Done():
		return nil, "", err
	}
	switch {
	case !process.InputRead():
	case p.discovering:
		next = cmp.Or(p.offered, p.offer())
	case first != "" && p.offered != first: // it rejected first
		next = p.offered
	}
	return l, next, err
}

func (t *connTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	if t.used.Swap(true) {
		return nil, errConnUsed
	}
	p, err := d.newProbe(t.conn, nil)
	if err != nil {
		return nil, err
	}
	return p.connect(ctx, memory)
}

// connect connects to the server at the other end of conn (2026-07-28, basic/transports/stdio, Backward Compatibility).
// It closes conn if it fails.
func (p *probe) connect(ctx context.Context, memory *Discovery) (*link, error) {
	l, err := p.recall(ctx, memory)
	if l == nil && err == nil {
		l, err = p.find(ctx)
	}
	if err != nil {
		err = p.addSilence(p.addExit(ctx, err))
		p.ended = p.endings.add(p.close)
		return nil, err
	}
	p.watchLoss()
	l.fail = p.eras.Lost
	send := l.call
	l.call = func(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
		result, err := send(ctx, req)
		if err != nil {
			err = p.addExit(ctx, err)
		}
		return result, err
	}
	return l, nil
}

// exitTimeout limits the wait for the exit of a process that has closed its output.
const exitTimeout = 2 * time.Second

// errExited is the reason for a lost connection if the process exits without an error.
var errExited = errors.New("the server process exited with code 0")

// addExit adds to a lost connection's error how the server process ended.
func (p *probe) addExit(ctx context.Context, err error) error {
	process, ok := p.conn.(*transport.CommandConn)
	if !ok || !errors.Is(err, call.ErrConnectionLost) {
		return err
	}
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	select {
	case <-process.Done():
	case <-timer.C:
		return err
	case <-ctx.Done():
		return err
	}
	if exit := process.Err(); exit != nil {
		return fmt.Errorf("%w: %w", err, exit)
	}
	return fmt.Errorf("%w: %w", err, errExited)
}

// addSilence adds to the error of a server that has not answered in time what it has written instead: nothing, or text
// that is not a message.
func (p *probe) addSilence(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	after := time.Since(p.began).Round(100 * time.Millisecond)
	if invalid := p.eras.first.Load(); invalid != nil {
		return &silenceError{err, after, *invalid}
	}
	if process, ok := p.conn.(*transport.CommandConn); ok {
		select {
		case <-process.Started():
		default:
			return &silenceError{err, after, nil}
		}
	}
	return err
}

// watchLoss calls OnConnectionLost once the established connection ends, even if it has
// already ended.
func (p *probe) watchLoss() {
	if p.OnConnectionLost == nil {
		return
	}
	p.watching.Go(func() {
		<-p.modern.Done()
		if err := p.modern.Failed(); !errors.Is(err, call.ErrClosed) {
			p.OnConnectionLost(p.addExit(context.Background(), err))
		}
	})
}
