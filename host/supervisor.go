package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
)

const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// loginBackoff limits the backoff of a server that requires a login. The user may
	// have logged in since the last attempt.
	loginBackoff = 15 * time.Second

	// stable is how long a server must be ready for its next failure not to increase
	// the backoff.
	stable = 10 * time.Second
)

// supervisor keeps the client of one server.
type supervisor struct {
	name     string
	config   ServerConfig
	host     *Host
	reviewer func(Definition) error
	dialer   client.Dialer
	local    rpc.InputKinds // the input requests that are not forwarded
	inputs   inputLimiter
	callers  callers
	common   // of the shared client
	logger   *slog.Logger

	catalog *catalog // of the last search; guarded by Host.cataloging

	callerLists   callerLists // with CallerAuth, also callerWatches
	callerWatches callerWatches
	listWatches   chan struct{} // has an element for each caller whose lists are watched

	ctx      context.Context // ends with the Host, or by cancel
	cancel   context.CancelCauseFunc
	wanted   chan struct{} // capacity 1: the server should be started
	retired  chan struct{} // closed by retire
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
	failures      int                // in a row
	calls         int                // in flight, see enter
	used          time.Time          // the end of the last call, with Idle
	retiring      bool               // see retire
	stopWatcher   context.CancelFunc // stops the watcher without waiting for it; may be nil
	changed       broadcast          // that status has changed
	subscriptions subscriptions
	watcher       *watcher // used by run only
}

func newSupervisor(h *Host, config ServerConfig) *supervisor {
	s := &supervisor{
		name:     config.Name,
		config:   config,
		host:     h,
		reviewer: h.Review,
		naming:   newNaming(&config, h.maxName()),
		dialer:   h.Dialer,
		logger:   h.logger().With("server", config.Name),
		wanted:   make(chan struct{}, 1),
		retired:  make(chan struct{}),

		listWatches: make(chan struct{}, maxListWatches),
	}
	s.status = ServerStatus{Name: config.Name, State: Starting, Version: h.versions.Add(1), Prefix: s.naming.prefix, MaxResult: config.MaxResult, CallerAuth: config.CallerAuth != nil, Extensions: config.Extensions}
	if config.Lazy {
		s.status.State = NotStarted
	}
	s.ctx, s.cancel = context.WithCancelCause(h.ctx)
	s.dialer.Revision = cmp.Or(config.Revision, s.dialer.Revision)
	if s.dialer.Logger == nil {
		s.dialer.Logger = s.logger
	} else {
		s.dialer.Logger = s.dialer.Logger.With("server", config.Name)
	}
	s.inputs.init(config.InputLimits)
	s.setHandlers()
	s.setExtensions()
	s.dialer.OnConnectionLost = func(err error) { s.lost(nil, err) }
	if h.Middleware != nil {
		s.dialer.Middleware = append(slices.Clip(s.dialer.Middleware), h.Middleware(config.Name)...)
	}
	s.dialer.Trace = nil
	s.callers.init(s)
	if h.Trace != nil {
		s.dialer.Trace = func(sent bool, message []byte) { h.Trace(config.Name, sent, message) }
	}
	return s
}

// run connects to the server at first, and again each time the server is wanted, until
// s.ctx ends. Only run dials. A server that has never been ready is wanted after each
// backoff: its tools are not known yet, so no call may come.
func (s *supervisor) run() {
	ctx := s.ctx
	defer s.cancel(nil)
	defer func() {
		s.stopWatching()
		s.callerWatches.close()
		callersErr := s.callers.close()
		if c := s.current(); c != nil {
			s.closeErr = errors.Join(callersErr, c.Close())
		}
		s.set(func(status *ServerStatus) bool {
			status.State, status.Err = Down, ErrClosed
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
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			retry := s.down(err)
			if s.current() == nil || s.snapshot().State == CallersOnly {
				again = time.After(time.Until(retry))
			}
		}
		if !s.awaitNeed(ctx, again) {
			return
		}
	}
}

// awaitNeed returns true when the server must be dialled again: it is wanted, or again receives. Meanwhile it ends a
// server that is idle. It returns false when ctx ends.
func (s *supervisor) awaitNeed(ctx context.Context, again <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.wanted:
			return true
		case <-s.idleTimer():
			s.endIdle()
		case <-again:
			if s.snapshot().State != CallersOnly { // which remains usable during the attempt
				s.want()
				<-s.wanted // sent by want, here or in a call
			}
			return true
		}
	}
}

// connect dials the server, or makes the existing client reconnect, and lists what the
// server has.
func (s *supervisor) connect(ctx context.Context) error {
	s.stopWatching()
	c := s.current()
	if c == nil {
		var err error
		if c, err = s.dialer.Dial(ctx, s.config.Target); err != nil {
			return err
		}
	} else if err := c.Ping(ctx); err != nil {
		return err
	}
	s.startWatching(ctx, c) // before listing, so that no change is missed
	listed, err := list(ctx, c, allKinds, client.WithRefresh())
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

// ready publishes the lists of a server that is connected.
func (s *supervisor) ready(c *client.Client, listed lists) {
	s.publish(func(all *lists, details *client.ServerDetails) client.ChangeKind {
		*all, *details = listed, c.Server()
		return allKinds
	}, func(status *ServerStatus) bool {
		s.client, s.since, s.lostAt = c, time.Now(), time.Time{}
		*status = ServerStatus{
			Name: s.name, State: Ready, Revision: c.Revision(), Sharing: s.sharing(c), MaxResult: s.config.MaxResult,
			CallerAuth: s.config.CallerAuth != nil, Extensions: s.config.Extensions, Server: c.Server(),
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

// lost marks a server that was ready as down. It does nothing if c is neither nil nor
// the current client.
func (s *supervisor) lost(c *client.Client, err error) {
	changed := s.set(func(status *ServerStatus) bool {
		if !status.State.Usable() || c != nil && c != s.client {
			return false
		}
		if time.Since(s.since) >= stable {
			s.failures = -1 // allow the first attempt at once
		}
		if s.canRestart() {
			s.lostAt = time.Now()
		}
		s.fail(status, err)
		return true
	})
	if changed {
		s.logger.Warn("server lost", "error", err)
	}
}

// canRestart reports whether the server can be dialled again after its connection was lost.
func (s *supervisor) canRestart() bool {
	switch s.config.Target.(type) {
	case *client.CommandTarget, *client.HTTPTarget:
		return true
	}
	return false
}

// down marks a server as down that could not be started, and returns the time of the next
// attempt. It logs an error that attempts repeat once as a warning.
func (s *supervisor) down(err error) (retry time.Time) {
	level, text := slog.LevelWarn, "server down"
	s.set(func(status *ServerStatus) bool {
		if status.Err != nil && status.Err.Error() == err.Error() {
			level = slog.LevelDebug
		}
		s.fail(status, err)
		if retry = status.Retry; status.State == CallersOnly {
			text = "the server has no lists without a login, so it is for callers who log in"
		}
		return true
	})
	s.logger.Log(context.Background(), level, text, "error", err, "retry", time.Until(retry).Round(time.Second))
	return retry
}

// fail requires that mu is held. It stops the watcher, because a watch would make the
// client reconnect.
func (s *supervisor) fail(status *ServerStatus, err error) {
	if s.stopWatcher != nil {
		s.stopWatcher()
	}
	s.failures++
	wait := backoff(s.failures)
	status.State, status.Err = Down, err
	switch {
	case !isUnauthorized(err):
	case s.config.CallerAuth != nil:
		status.State = CallersOnly
	default:
		wait = min(wait, loginBackoff)
		status.State = NeedsLogin
	}
	status.Retry = time.Now().Add(jitter(wait))
}

// isUnauthorized reports whether a server requires credentials, or others than it received.
func isUnauthorized(err error) bool {
	var status *call.StatusError
	return errors.Is(err, client.ErrUnauthorized) || errors.As(err, &status) && status.Status == http.StatusUnauthorized
}

// jitter shortens a backoff by up to a quarter, so that many hosts do not reconnect at the
// same time to a server that was down.
func jitter(wait time.Duration) time.Duration { return wait - rand.N(wait/4+1) }

// backoff returns the time to wait after a number of failures in a row.
func backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(firstBackoff<<min(failures-1, 10), maxBackoff)
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
