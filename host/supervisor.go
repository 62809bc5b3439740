package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// supervisor keeps the client of one server.
type supervisor struct {
	name      string
	config    ServerConfig
	host      *Host
	reviewer  func(Definition) error
	dialer    client.Dialer
	local     inputKinds // kinds of requests that the program answers, not the caller
	inputs    inputLimiter
	own       connection // connection for everyone
	pool      pool
	approvals sessionApprovals

	callerHeaders []callerHeader

	answered atomic.Bool // the server has answered a call since it became ready
	logger   *slog.Logger

	catalog *catalog // catalog of the last search; guarded by Host.cataloging

	ctx      context.Context // cancelled by Close of the Host, or by cancel
	cancel   context.CancelCauseFunc
	serving  context.Context // cancelled with ctx, or by retire
	retired  context.CancelFunc
	wanted   chan struct{} // capacity 1: the server should be started
	closeErr error         // set when run has returned

	mu            sync.Mutex // locked after the mutex of the name table
	generation    uint64     // increases when naming, lists, details or offered change
	naming        *naming
	lists         lists                // as the server sends them
	details       client.ServerDetails // as the server sends them
	offered       offered              // also guarded by the mutex of the name table
	client        *client.Client       // nil until the first dial has succeeded
	status        ServerStatus
	since         time.Time          // when the server became usable
	lostAt        time.Time          // when a server that was ready was lost, until it is ready again
	notBefore     time.Time          // the server asked not to be called before this time (Retry-After)
	failures      int                // failures in a row
	attempted     time.Time          // start of the last attempt to connect
	calls         int                // calls in flight; see enter
	used          time.Time          // end of the last call, if Idle is set
	retiring      bool               // see retire
	stopWatcher   context.CancelFunc // stops the watcher without waiting for it; may be nil
	changed       broadcast          // notifies of changes of status
	subscriptions subscriptions
	watcher       *watcher // used only by run
}

func newSupervisor(h *Host, config ServerConfig, reserved []string) *supervisor {
	s := &supervisor{
		name:     config.Name,
		config:   config,
		host:     h,
		reviewer: h.Review,
		dialer:   h.Dialer,
		logger:   h.logger().With("server", config.Name),
		wanted:   make(chan struct{}, 1),
	}
	s.callerHeaders, _ = config.callerHeaders() // already checked
	s.naming = newNaming(&s.config, h.maxName(), reserved)
	s.status = ServerStatus{Name: config.Name, State: Starting,
		Version: h.versions.Add(1), Config: &s.config}
	if config.Lazy {
		s.status.State = NotStarted
	}
	s.ctx, s.cancel = context.WithCancelCause(h.ctx)
	s.serving, s.retired = context.WithCancel(s.ctx)
	s.dialer.Middleware, s.dialer.Extensions = slices.Clip(s.dialer.Middleware), slices.Clip(s.dialer.Extensions)
	if h.AdaptDialer != nil {
		h.AdaptDialer(config.Name, &s.dialer)
	}
	s.dialer.Revision = cmp.Or(config.Revision, s.dialer.Revision)
	if config.StartTimeout > 0 { // StartTimeout limits everything together
		s.dialer.Timeouts.Start, s.dialer.Timeouts.Initialize = config.StartTimeout, config.StartTimeout
	}
	if s.dialer.Logger == nil {
		s.dialer.Logger = s.logger
	} else {
		s.dialer.Logger = s.dialer.Logger.With("server", config.Name)
	}
	s.inputs.init(config.InputLimits)
	if d := &s.dialer; config.Roots != nil {
		d.Roots = func(context.Context) ([]mcp.Root, error) { return s.config.Roots, nil }
	}
	s.local = kindsOf(s.dialer.Elicit != nil, s.dialer.ElicitURL != nil, s.dialer.Sample != nil, s.dialer.SampleTools,
		s.dialer.Roots != nil)
	s.setExtensions()
	s.dialer.OnConnectionLost = func(err error) { s.lost(nil, err) }
	s.pool.init(s)
	return s
}

// run connects to the server at first, and again after each backoff or when the server is
// wanted, until s.ctx ends. Only run dials. It does not wait for a call, because none may
// come: nobody calls a server whose tools are unknown, and a load balancer waits for /readyz.
func (s *supervisor) run() {
	ctx := s.ctx
	defer s.cancel(nil)
	defer func() {
		s.stopWatching()
		callersErr := s.pool.close()
		if c := s.current(); c != nil {
			s.closeErr = errors.Join(callersErr, c.Close())
		}
		s.set(func(status *ServerStatus) bool {
			status.State, status.Err = Down, errClosed
			return true
		})
	}()
	if s.config.Lazy {
		select {
		case <-ctx.Done():
			return
		case <-s.wanted:
		}
	}
	for {
		s.mu.Lock()
		s.attempted = time.Now()
		s.mu.Unlock()
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.down(err)
		}
		if !s.awaitNeed(ctx) {
			return
		}
	}
}

// awaitNeed returns true when the server must be dialled again: it is wanted, or its backoff is over. In the meantime,
// it stops a server that is idle. It returns false when ctx ends.
func (s *supervisor) awaitNeed(ctx context.Context) bool {
	for {
		changed := s.changed.wait()
		select {
		case <-ctx.Done():
			return false
		case <-s.wanted:
			return true
		case <-s.idleTimer():
			s.endIdle()
		case <-s.retryTimer():
			if s.snapshot().State != CallersOnly { // it remains usable during the attempt
				s.want()
				<-s.wanted // sent by want, just above or in a call
			}
			return true
		case <-changed: // perhaps lost
		}
	}
}

// startTime is how long a server may take until its lists are known, unless ServerConfig.StartTimeout is set.
const startTime = 45 * time.Second

// connect dials the server, or makes the existing client reconnect, and requests the
// lists. A single time limit covers all of it.
func (s *supervisor) connect(ctx context.Context) error {
	s.stopWatching()
	limit := cmp.Or(s.config.StartTimeout, startTime)
	starting, cancel := context.WithTimeoutCause(ctx, limit, &startError{limit})
	defer cancel()
	c := s.current()
	if c == nil {
		var err error
		d := s.dialerFor(&s.own, nil)
		if c, err = dialAlone(starting, &d, s.config.Target); err != nil {
			return startFailure(starting, limit, err)
		}
	} else if err := c.Ping(starting); err != nil {
		return startFailure(starting, limit, err)
	}
	s.startWatching(ctx, c) // before listing, so that no change is missed
	listed, err := list(starting, c, allKinds, client.WithRefresh())
	err = startFailure(starting, limit, err)
	if err != nil {
		s.stopWatching()
		if s.current() == nil {
			c.Close()
		}
		return err
	}
	s.ready(c, listed)
	return nil
}

// startError is the error of a server that is not ready in time. It matches context.DeadlineExceeded.
type startError struct{ limit time.Duration }

func (e *startError) Error() string { return fmt.Sprintf("not ready within %v", e.limit) }

func (e *startError) Is(target error) bool { return target == context.DeadlineExceeded }

// startFailure returns err with the limit of a start, if ctx has reached it. A request can time out at the same moment,
// before ctx has ended.
func startFailure(ctx context.Context, limit time.Duration, err error) error {
	deadline, _ := ctx.Deadline()
	if err == nil || time.Now().Before(deadline) || errors.As(err, new(*startError)) {
		return err
	}
	return fmt.Errorf("%w: %w", &startError{limit}, err)
}

// dialAlone dials a server. It waits until a failed attempt has been cleaned up, so that two processes of a server
// never run at the same time, and none outlives the Host.
func dialAlone(ctx context.Context, d *client.Dialer, target client.Target) (*client.Client, error) {
	c, err := d.Dial(ctx, target)
	if failed, ok := errors.AsType[*client.DialError](err); ok {
		failed.Wait()
	}
	return c, err
}

// ready publishes the lists of a server that is connected.
func (s *supervisor) ready(c *client.Client, listed lists) {
	s.publish(func(all *lists, details *client.ServerDetails) client.ChangeKind {
		*all, *details = listed, c.Server()
		return allKinds
	}, func(status *ServerStatus) bool {
		s.client, s.since, s.lostAt = c, time.Now(), time.Time{}
		s.answered.Store(false)
		*status = ServerStatus{
			Name: s.name, State: Ready, Revision: c.Revision(), Server: c.Server(),
			Sharing: s.sharing(c),
		}
		return true
	})
	s.logger.Info("server ready", "revision", c.Revision(), "tools", len(listed.tools))
	if status := s.snapshot(); status.Incomplete != nil {
		s.logger.Warn("server ready with incomplete lists", "error", status.Incomplete)
	}
}

// want makes run start a server that is down or has not started.
func (s *supervisor) want() {
	s.set(func(status *ServerStatus) bool {
		if !status.State.isDown() && status.State != NotStarted {
			return false
		}
		status.State = Starting
		select {
		case s.wanted <- struct{}{}:
		default:
		}
		return true
	})
}

func (s *supervisor) current() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *supervisor) snapshot() ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// set calls change with mu held and notifies all waiting goroutines if change returns
// true.
func (s *supervisor) set(change func(*ServerStatus) bool) (changed bool) {
	s.mu.Lock()
	changed = change(&s.status)
	if changed {
		s.status.Version = s.host.versions.Add(1)
	}
	s.mu.Unlock()
	if changed {
		s.changed.notify()
		s.host.changed.notify()
	}
	return changed
}

// idleTimer returns a channel that receives a value when the server may have been idle for Idle, or nil if an
// idle server keeps running.
func (s *supervisor) idleTimer() <-chan time.Time {
	if s.config.Idle <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.isUsable() || s.client == nil {
		return nil
	}
	wait := s.config.Idle
	if s.calls == 0 {
		wait = max(time.Until(s.lastUsed().Add(s.config.Idle)), time.Millisecond)
	}
	return time.After(wait)
}

// lastUsed returns the end of the last call, or when the server became usable. mu must be held.
func (s *supervisor) lastUsed() time.Time {
	if s.used.After(s.since) {
		return s.used
	}
	return s.since
}

// endIdle closes the connections to a server that is not used. A call will start it again, and its lists stay
// known.
func (s *supervisor) endIdle() {
	if s.isWatched() {
		s.mu.Lock()
		s.used = time.Now()
		s.mu.Unlock()
		return
	}
	unused := s.current()
	ended := s.set(func(status *ServerStatus) bool {
		if s.calls > 0 || !status.State.isUsable() || time.Since(s.lastUsed()) < s.config.Idle {
			return false
		}
		status.State, status.Err = NotStarted, nil
		s.client = nil
		return true
	})
	if !ended {
		return
	}
	s.logger.Info("stopped the server because it was idle", "idle", s.config.Idle)
	s.stopWatching()
	s.pool.endUnused()
	if err := unused.Close(); err != nil {
		s.logger.Warn("the idle server ended with an error", "error", err)
	}
	if s.isWatched() { // a subscription has begun in the meantime
		s.want()
	}
}

// isWatched reports whether the server has subscriptions.
func (s *supervisor) isWatched() bool {
	uris, _ := s.subscriptions.uris()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return len(uris)+len(s.pool.watches) > 0
}
