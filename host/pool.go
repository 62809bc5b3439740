package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/principal"
)

// Limits on the connections to one server, not counting the one for everyone.
const (
	maxConnections = 256
	connectionIdle = 30 * time.Minute
)

// connection is one client of one server, for one audience. The connection for everyone holds the client of
// the supervisor.
type connection struct {
	key     audience
	dialled chan struct{} // closed when client or err is set; nil for everyone
	client  *client.Client
	err     error
	roots   rootsNotifier
	listing chan struct{} // capacity 1: contains an element while the lists of a caller are requested

	// Guarded by pool.mu.
	lists map[string]*callerLists // by the scopes of tokens
	uses  int
	used  time.Time // when it was last released
	timer *time.Timer

	mu        sync.Mutex
	pending   []*pending // the requests in flight, oldest first
	questions []*question
	last      *Caller
	several   bool // others than the user of this machine have used it
	rootless  bool // only for everyone: the server requested roots before there was somebody to ask
	second    int64
	late      int // number of log messages without a request in that second
}

// callerFor returns the caller of ctx. A server with CallerAuth needs one.
func (s *supervisor) callerFor(ctx context.Context) *Caller {
	if c := callerFrom(ctx); c != nil || s.config.CallerAuth == nil {
		return c
	}
	return &Caller{Auth: callerOf(ctx)}
}

// connectionFor returns the connection for the caller of ctx, as audienceOf decides, and a function that releases it.
// own is the client for everyone.
func (s *supervisor) connectionFor(ctx context.Context, own *client.Client) (*connection, *client.Client, func(),
	error) {
	caller := s.callerFor(ctx)
	key, err := s.audienceOf(caller, own)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case key == everyone:
		return &s.own, own, func() {}, nil
	}
	c, err := s.pool.acquire(ctx, key, caller, own)
	if err != nil {
		return nil, nil, nil, err
	}
	return c, c.client, func() { s.pool.release(c) }, nil
}

// pool keeps the connections to one server, except for the one for everyone. It is safe for concurrent use.
type pool struct {
	of   *supervisor
	idle time.Duration
	max  int

	listed    broadcast // notifies that lists were received for a user
	unwatched broadcast // notifies that watched has shrunk

	mu      sync.Mutex
	byKey   map[audience]*connection
	watches map[principal.Principal]*userWatch
	watched map[principal.Principal]int // number of watches that keep a user's connection in use
	closed  bool
	closing sync.WaitGroup // watches, and clients that are being closed; Add is called under mu before closed is set
}

func (a *pool) init(s *supervisor) {
	a.of, a.idle, a.max = s, connectionIdle, maxConnections
	a.byKey, a.watches = make(map[audience]*connection), make(map[principal.Principal]*userWatch)
	a.watched = make(map[principal.Principal]int)
}

// acquire returns the connection of an audience, and dials the server first if there is none. The caller must call
// release.
func (a *pool) acquire(ctx context.Context, key audience, caller *Caller, own *client.Client) (*connection, error) {
	c, dial, err := a.enter(key)
	if err != nil {
		return nil, err
	}
	if dial {
		c.client, c.err = a.dial(ctx, caller, c, own)
		close(c.dialled)
	}
	select {
	case <-c.dialled:
	case <-ctx.Done():
		a.release(c)
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		a.remove(c)
		a.release(c)
		return nil, c.err
	}
	return c, nil
}

// enter begins a use of the connection of an audience. dial reports whether the caller must dial it.
func (a *pool) enter(key audience) (c *connection, dial bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false, errClosed
	}
	c = a.byKey[key]
	if c == nil {
		if len(a.byKey) >= a.max && !a.evict() {
			return nil, false, &call.OverloadError{Limit: "connections to the server", RetryAfter: time.Second}
		}
		c = &connection{key: key, dialled: make(chan struct{}), listing: make(chan struct{}, 1)}
		a.byKey[key], dial = c, true
	}
	c.uses++
	if c.timer != nil {
		c.timer.Stop()
	}
	return c, dial, nil
}

// evict closes the least recently used connection that is not in use, of the user with the most connections: a user
// with many sessions must not close the connections of others. mu must be held.
func (a *pool) evict() bool {
	of := make(map[principal.Principal]int)
	for key := range a.byKey {
		of[key.user]++
	}
	var oldest *connection
	for key, c := range a.byKey {
		if c.uses > 0 {
			continue
		}
		if oldest == nil || of[key.user] > of[oldest.key.user] ||
			of[key.user] == of[oldest.key.user] && c.used.Before(oldest.used) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	a.end(oldest)
	return true
}

// end closes a connection that is not in use, in the background. mu must be held.
func (a *pool) end(c *connection) {
	delete(a.byKey, c.key)
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.client != nil {
		a.closing.Go(func() { _ = c.client.Close() })
	}
}

// endUnused closes the connections that are not in use.
func (a *pool) endUnused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.byKey {
		if c.uses == 0 {
			a.end(c)
		}
	}
}

// release ends a use of a connection.
func (a *pool) release(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.uses--
	if c.uses > 0 || a.closed || a.byKey[c.key] != c {
		return
	}
	c.used = time.Now()
	if c.timer == nil {
		c.timer = time.AfterFunc(a.idle, func() { a.expire(c) })
	} else {
		c.timer.Reset(a.idle)
	}
}

// expire closes a connection that has been idle for too long.
func (a *pool) expire(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.uses == 0 && !a.closed && a.byKey[c.key] == c && time.Since(c.used) >= a.idle {
		a.end(c)
	}
}

// remove forgets a connection that could not be dialled.
func (a *pool) remove(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey[c.key] == c {
		delete(a.byKey, c.key)
	}
}

// dial dials the server for an audience. It sends nothing if the client for everyone has discovered the server;
// the first request then connects.
func (a *pool) dial(ctx context.Context, caller *Caller, c *connection, own *client.Client) (*client.Client, error) {
	d := a.of.dialerFor(c, caller)
	d.OnConnectionLost = nil
	if own != nil { // it is nil with CallersOnly
		known := own.Discovery()
		d.Discovery = &known
	}
	if err := a.of.config.authorize(&d, c.key.user); err != nil {
		return nil, err
	}
	a.of.passHeaders(&d, caller)
	return dialAlone(context.WithoutCancel(ctx), &d, a.of.config.Target)
}

// each calls f with each connection that is dialled, with mu held.
func (a *pool) each(f func(*connection)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.byKey {
		select {
		case <-c.dialled:
			if c.client != nil {
				f(c)
			}
		default: // the server will request the roots later
		}
	}
}

// close closes all connections and waits for them.
func (a *pool) close() error {
	a.mu.Lock()
	a.closed = true
	all := a.byKey
	a.byKey = nil
	a.mu.Unlock()
	errs := make(chan error, len(all))
	for _, c := range all {
		if c.timer != nil {
			c.timer.Stop()
		}
		a.closing.Go(func() {
			<-c.dialled
			if c.client != nil {
				errs <- c.client.Close()
			}
		})
	}
	a.closing.Wait()
	close(errs)
	var joined []error
	for err := range errs {
		joined = append(joined, err)
	}
	return errors.Join(joined...)
}
