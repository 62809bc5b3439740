package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// perCaller reports whether each caller has a client of its own.
func (s *supervisor) perCaller(c *client.Client) bool {
	_, isHTTP := s.config.Target.(*client.HTTPTarget)
	switch own := s.config.PerCaller; {
	case s.config.CallerAuth != nil:
		return true
	case own != nil:
		return *own
	default:
		return isHTTP && clients.KeepsSession(c)
	}
}

// clientFor returns the client for the caller of ctx, and a function that ends its use.
func (s *supervisor) clientFor(ctx context.Context, shared *client.Client) (c *client.Client, release func(),
	err error) {
	caller := rpc.CallerOf(ctx)
	if s.config.CallerAuth != nil {
		if caller, err = authenticated(ctx, caller); err != nil {
			return nil, nil, err
		}
	} else if !caller.Returns || !s.perCaller(shared) {
		user, ok := s.userOf(caller, shared)
		if !ok {
			s.shares(ctx, s, caller, shared)
			return shared, func() {}, nil
		}
		own, err := s.callers.acquire(ctx, user, shared)
		if err != nil {
			return nil, nil, err
		}
		own.shares(ctx, s, caller, own.client)
		return own.client, func() { s.callers.release(own) }, nil
	}
	own, err := s.callers.acquire(ctx, caller, shared)
	if err != nil {
		return nil, nil, err
	}
	return own.client, func() { s.callers.release(own) }, nil
}

// userKey is the key of the client for all callers who are authenticated as one user.
type userKey principal.Principal

// userOf returns the caller who has one client for all requests of a user. It reports false if the user has none: users
// share a program only if that is asked for, or if it can send no requests that one of them would have to answer.
func (s *supervisor) userOf(caller rpc.Caller, shared *client.Client) (user rpc.Caller, ok bool) {
	_, isCommand := s.config.Target.(*client.CommandTarget)
	if !isCommand || s.config.PerCaller != nil || !s.host.forwards || shared.Revision().Modern() ||
		caller.Owner == principal.Anonymous || caller.Owner == principal.Local {
		return rpc.Caller{}, false
	}
	return rpc.Caller{Key: userKey(caller.Owner), Owner: caller.Owner, Returns: true}, true
}

// Limits of the clients of callers of one server.
const (
	maxCallers = 256
	callerIdle = 30 * time.Minute
)

// callers are the clients of the callers of one server. It is safe for concurrent use.
type callers struct {
	of     *supervisor
	target client.Target
	auth   *CallerAuth // may be nil
	idle   time.Duration
	max    int

	mu      sync.Mutex
	byKey   map[any]*callerClient
	closed  bool
	closing sync.WaitGroup // the clients that are being closed; Add is called under mu before closed is set
}

// callerClient is the client of one caller. Its fields below dialled are guarded by callers.mu.
type callerClient struct {
	key     any
	owner   principal.Principal
	dialled chan struct{} // closed when client or err is set
	client  *client.Client
	err     error
	session session // of the caller, if it is one
	common          // of client

	uses  int
	used  time.Time // the end of the last use
	timer *time.Timer
}

func (a *callers) init(s *supervisor) {
	a.of, a.target, a.auth, a.idle, a.max = s, s.config.Target, s.config.CallerAuth, callerIdle, maxCallers
	a.byKey = make(map[any]*callerClient)
}

// acquire returns the client of a caller, and dials the server first if the caller has none. Release must follow.
func (a *callers) acquire(ctx context.Context, caller rpc.Caller, shared *client.Client) (*callerClient, error) {
	own, dial, err := a.enter(caller)
	if err != nil {
		return nil, err
	}
	own.session.belongTo(ctx)
	if dial {
		own.client, own.err = a.dial(ctx, caller, own, shared)
		close(own.dialled)
	}
	select {
	case <-own.dialled:
	case <-ctx.Done():
		a.release(own)
		return nil, context.Cause(ctx)
	}
	if own.err != nil {
		a.remove(own)
		a.release(own)
		return nil, own.err
	}
	return own, nil
}

// enter begins a use of the client of a caller. Dial reports that the caller must dial it.
func (a *callers) enter(caller rpc.Caller) (own *callerClient, dial bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false, errClosed
	}
	own = a.byKey[caller.Key]
	if own == nil {
		if len(a.byKey) >= a.max && !a.evict() {
			return nil, false, &call.OverloadError{Limit: "clients of callers", RetryAfter: time.Second}
		}
		own, dial = &callerClient{key: caller.Key, owner: caller.Owner, dialled: make(chan struct{})}, true
		a.byKey[own.key] = own
	}
	own.uses++
	if own.timer != nil {
		own.timer.Stop()
	}
	return own, dial, nil
}

// evict closes the least recently used client that is not in use, of the principal that has the most clients: a
// principal with many sessions must not end those of others. It requires that mu is held.
func (a *callers) evict() bool {
	of := make(map[principal.Principal]int)
	for _, own := range a.byKey {
		of[own.owner]++
	}
	var oldest *callerClient
	for _, own := range a.byKey {
		if own.uses > 0 {
			continue
		}
		if oldest == nil || of[own.owner] > of[oldest.owner] ||
			of[own.owner] == of[oldest.owner] && own.used.Before(oldest.used) {
			oldest = own
		}
	}
	if oldest == nil {
		return false
	}
	a.end(oldest)
	return true
}

// end closes a client that is not in use, in the background. It requires that mu is held.
func (a *callers) end(own *callerClient) {
	delete(a.byKey, own.key)
	if own.timer != nil {
		own.timer.Stop()
	}
	if own.client != nil {
		a.closing.Go(func() { _ = own.client.Close() })
	}
}

// endUnused closes the clients that are not in use.
func (a *callers) endUnused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, own := range a.byKey {
		if own.uses == 0 {
			a.end(own)
		}
	}
}

// release ends a use.
func (a *callers) release(own *callerClient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own.uses--
	if own.uses > 0 || a.closed || a.byKey[own.key] != own {
		return
	}
	own.used = time.Now()
	if own.timer == nil {
		own.timer = time.AfterFunc(a.idle, func() { a.expire(own) })
	} else {
		own.timer.Reset(a.idle)
	}
}

// expire closes a client that was idle for too long.
func (a *callers) expire(own *callerClient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own.uses == 0 && !a.closed && a.byKey[own.key] == own && time.Since(own.used) >= a.idle {
		a.end(own)
	}
}

// remove forgets a client that could not be dialled.
func (a *callers) remove(own *callerClient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey[own.key] == own {
		delete(a.byKey, own.key)
	}
}

// dial dials the client of a caller. It sends nothing if the shared client has discovered the server: the first
// request connects.
func (a *callers) dial(ctx context.Context, caller rpc.Caller, own *callerClient,
	shared *client.Client) (*client.Client, error) {
	d := a.of.dialer
	d.OnConnectionLost = nil
	if shared != nil { // it is nil with CallersOnly
		known := shared.Discovery()
		d.Discovery = &known
	}
	if caller.Limited {
		limit(&d, caller.Declared)
	}
	if caller.Session {
		own.session.receive(a.of, &d)
	} else {
		own.receive(&d)
	}
	target := a.target
	if a.auth != nil {
		var err error
		if target, err = a.auth.authorize(&d, target, caller.Owner); err != nil {
			return nil, err
		}
	}
	return dialAlone(context.WithoutCancel(ctx), &d, target)
}

// limit removes the functions for other kinds of input requests, so that a session declares no others.
func limit(d *client.Dialer, kinds rpc.InputKinds) {
	if kinds&rpc.FormInput == 0 {
		d.Elicit = nil
	}
	if kinds&rpc.URLInput == 0 {
		d.ElicitURL = nil
	}
	if kinds&rpc.SamplingInput == 0 {
		d.Sample = nil
	}
	d.SampleTools = d.SampleTools && kinds&rpc.SamplingToolsInput != 0
	if kinds&rpc.RootsInput == 0 {
		d.Roots = nil
	}
}

// close closes all clients and waits for them.
func (a *callers) close() error {
	a.mu.Lock()
	a.closed = true
	all := a.byKey
	a.byKey = nil
	a.mu.Unlock()
	errs := make(chan error, len(all))
	for _, own := range all {
		if own.timer != nil {
			own.timer.Stop()
		}
		a.closing.Go(func() {
			<-own.dialled
			if own.client != nil {
				errs <- own.client.Close()
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
