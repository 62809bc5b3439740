package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/principal"
)

// Limits of the connections of one server besides that of everyone.
const (
	maxConnections = 256
	connectionIdle = 30 * time.Minute
)

// maxLateLogs is the maximum number of log messages without a request in one second. Others are dropped.
const maxLateLogs = 256

// connection is one client of one server, for one audience. That of everyone is the client of its supervisor.
type connection struct {
	key     audience
	dialled chan struct{} // closed when client or err is set; nil for everyone
	client  *client.Client
	err     error
	roots   rootsNotifier
	listing chan struct{} // capacity 1: has an element while the lists of a caller are requested

	// Guarded by pool.mu.
	lists map[string]*callerLists // by the scopes of tokens
	uses  int
	used  time.Time // the end of the last use
	timer *time.Timer

	mu        sync.Mutex
	pending   []*pending // the requests in flight, from the oldest
	questions []*question
	last      *Caller
	several   bool // others than the user of this machine have used it
	rootless  bool // of everyone: the server has requested roots before there was somebody to ask
	second    int64
	late      int // log messages without a request in second
}

// pending is a request in flight. It is the context of the request to the server.
type pending struct {
	context.Context
	on    *connection
	other bool // its caller is not the user of this machine

	// Guarded by connection.mu.
	asked int  // questions of the server that wait for an answer
	ended bool // the call of its caller has ended, as a question has found out

	mu   sync.Mutex
	made int            // requests of the server meanwhile
	same map[string]int // how often an approval was requested, by its digest
}

type pendingKey struct{}

// Value implements context.Context.
func (p *pending) Value(key any) any {
	if _, ok := key.(pendingKey); ok {
		return p
	}
	return p.Context.Value(key)
}

// pendingOf returns the request that ctx belongs to, or nil.
func pendingOf(ctx context.Context) *pending {
	p, _ := ctx.Value(pendingKey{}).(*pending)
	return p
}

// begin begins a request. End must follow.
func (c *connection) begin(ctx context.Context) *pending {
	caller := callerFrom(ctx)
	p := &pending{Context: ctx, on: c, other: caller != nil && caller.principal() != principal.Local}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending = append(c.pending, p); caller != nil {
		c.last, c.several = caller, c.several || p.other
	}
	return p
}

func (c *connection) end(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.pending, p)
	if c.pending = slices.Delete(c.pending, i, i+1); len(c.pending) == 0 {
		for _, q := range c.questions {
			q.cancel(call.ErrCancelled)
		}
	}
}

// context returns the context of a message of the server. If the protocol does not say to which request it belongs,
// that is the newest one in flight, or the last caller, unless it may be that of several people: then it is nobody's.
func (c *connection) context(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.contextLocked(ctx)
}

func (c *connection) contextLocked(ctx context.Context) context.Context {
	if pendingOf(ctx) != nil {
		return ctx
	}
	var of *pending // a client may have to answer the questions of one request one after the other
	others := false
	for _, p := range slices.Backward(c.pending) {
		others = others || p.other
		if !p.ended && (of == nil || p.asked < of.asked) {
			of = p
		}
	}
	switch {
	case c.key.isShared() && (others || of == nil && c.several):
		return ctx
	case of != nil:
		return withValues{ctx, of}
	case c.last == nil:
		return ctx
	case c.last.Auth != nil:
		ctx = auth.NewContext(ctx, c.last.Auth)
	}
	return WithCaller(ctx, c.last)
}

// asking asks a question of the server. If nothing says to which request it belongs, it ends when none is in flight any
// more, and is asked for another one if the caller of the first has its answer meanwhile.
func asking[Result any](ctx context.Context, c *connection,
	ask func(context.Context) (*Result, error)) (*Result, error) {
	if pendingOf(ctx) != nil {
		return ask(ctx)
	}
	for {
		q := c.ask(ctx)
		result, err := ask(q.ctx)
		if again := q.end(err); !again || ctx.Err() != nil {
			return result, err
		}
	}
}

// question is a question of the server that names no request.
type question struct {
	on     *connection
	of     *pending // nil if none is in flight
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (c *connection) ask(ctx context.Context) *question {
	q := &question{on: c}
	ctx, q.cancel = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.ctx = c.contextLocked(ctx)
	if q.of = pendingOf(q.ctx); q.of != nil {
		q.of.asked++
		c.questions = append(c.questions, q)
	}
	return q
}

// end ends the question, and reports whether it belongs to another request, because its own has ended.
func (q *question) end(err error) (again bool) {
	q.cancel(nil)
	if q.of == nil {
		return false
	}
	q.on.mu.Lock()
	defer q.on.mu.Unlock()
	q.on.questions = slices.DeleteFunc(q.on.questions, func(other *question) bool { return other == q })
	q.of.asked--
	q.of.ended = q.of.ended || errors.Is(err, call.ErrCallDone)
	return errors.Is(err, call.ErrCallDone)
}

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

// Value implements context.Context. The embedded context comes first, because package context looks for the cause in
// it.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// allowsLog reports whether a log message is passed on that belongs to no request.
func (c *connection) allowsLog() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Unix(); now != c.second {
		c.second, c.late = now, 0
	}
	c.late++
	return c.late <= maxLateLogs
}

// count counts a request of the server, and returns their number.
func (p *pending) count() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	return p.made
}

// distinguish returns a digest that differs from those of earlier approvals, so that each of several equal requests
// of the server has an approval of its own. If the call runs again, its requests have the same digests.
func (p *pending) distinguish(sum string) string {
	if p == nil {
		return sum
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.same == nil {
		p.same = make(map[string]int)
	}
	p.same[sum]++
	return digest.Join([]byte(sum), fmt.Append(nil, p.same[sum]))
}

// callerFor returns the caller of ctx. A server with CallerAuth needs one.
func (s *supervisor) callerFor(ctx context.Context) *Caller {
	if c := callerFrom(ctx); c != nil || s.config.CallerAuth == nil {
		return c
	}
	return &Caller{Auth: callerOf(ctx)}
}

// connectionFor returns the connection for the caller of ctx, and a function that ends its use. Own is the client of
// everyone.
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

// pool has the connections of one server, but for that of everyone. It is safe for concurrent use.
type pool struct {
	of   *supervisor
	idle time.Duration
	max  int

	listed broadcast // that a user has received lists

	mu      sync.Mutex
	byKey   map[audience]*connection
	watches map[principal.Principal]*userWatch
	closed  bool
	closing sync.WaitGroup // watches, and clients that are being closed; Add is called under mu before closed is set
}

func (a *pool) init(s *supervisor) {
	a.of, a.idle, a.max = s, connectionIdle, maxConnections
	a.byKey, a.watches = make(map[audience]*connection), make(map[principal.Principal]*userWatch)
}

// acquire returns the connection of an audience, and dials the server first if there is none. Release must follow.
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

// enter begins a use of the connection of an audience. Dial reports that the caller must dial it.
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

// evict closes the least recently used connection that is not in use, of the user who has the most: a user with many
// sessions must not end those of others. It requires that mu is held.
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

// end closes a connection that is not in use, in the background. It requires that mu is held.
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

// release ends a use.
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

// expire closes a connection that was idle for too long.
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

// dial dials the server for an audience. It sends nothing if the client of everyone has discovered the server: the
// first request connects.
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
		default: // it requests the roots later
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
