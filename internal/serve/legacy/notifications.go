package legacy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Limits on deferred notifications. Each needs a goroutine.
const (
	maxDeferred        = 1_024 // of all sessions
	maxSessionDeferred = 16
	// maxQueuedNotifications limits the notifications without a listener; the oldest are dropped first. It allows
	// a change of each resource of a subscription, see NotificationQueue.HandOver.
	maxQueuedNotifications = changes.MaxSubscribed + 64
)

// deferredLimit counts the deferred notifications of all sessions. Close cancels them.
type deferredLimit struct {
	mu      sync.Mutex
	n       int
	closed  bool
	life    context.Context // created on first use
	end     context.CancelFunc
	running sync.WaitGroup
}

// tryBegin counts one more deferred notification and returns the context that Close cancels. It
// reports false if the limit is reached.
func (a *deferredLimit) tryBegin() (life context.Context, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.n >= maxDeferred {
		return nil, false
	}
	if a.life == nil {
		a.life, a.end = context.WithCancel(context.Background())
	}
	a.n++
	a.running.Add(1)
	return a.life, true
}

func (a *deferredLimit) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n--
	a.running.Done()
}

// Close cancels all deferred notifications and waits until they have ended, or until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	a := &s.deferred
	a.mu.Lock()
	a.closed = true
	if a.end != nil {
		a.end()
	}
	none := a.n == 0
	a.mu.Unlock()
	if none {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		a.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot stop RequiredURL.Done: it must return when its context ends: %w", ctx.Err())
	}
}

// deferredNotifications holds the deferred and the queued notifications of one session.
type deferredNotifications struct {
	mu     sync.Mutex
	n      int  // pending
	closed bool // the session has ended
	life   context.Context
	end    context.CancelFunc
	queued [][]byte
}

var _ rpc.SessionNotifier = (*Session)(nil)

// SessionID implements rpc.SessionNotifier.
func (s *Session) SessionID() string { return s.Source }

// current returns the session in memory, and begins a use of it, which release ends. It returns nil if the session has
// ended. A SessionNotifier often outlives its request, for example for a task, a host or a deferred notification. After
// the request, another object replaces a session that another replica has changed, and an unused one is evicted. So
// every method of the SessionNotifier begins with current.
func (s *Session) current() (now *Session, release func()) {
	if s.stored == nil {
		return s, func() {}
	}
	stored := s.stored.sessions.current(s.stored)
	if stored == nil {
		return nil, nil
	}
	return stored.Session, stored.Release
}

// NotifyWhenDone implements rpc.SessionNotifier.
func (s *Session) NotifyWhenDone(ctx context.Context, a rpc.DeferredNotification) bool {
	s, release := s.current()
	if s == nil {
		return false
	}
	if !s.tryNotifyWhenDone(ctx, a, release) {
		release()
		return false
	}
	return true
}

// tryNotifyWhenDone implements NotifyWhenDone for the current session. It calls release afterwards if it returns true.
func (s *Session) tryNotifyWhenDone(ctx context.Context, a rpc.DeferredNotification, release func()) bool {
	server := &s.server.deferred
	parent, ok := server.tryBegin()
	if !ok {
		return false
	}
	life, ok := s.deferred.tryBegin(parent)
	if !ok {
		server.done()
		return false
	}
	go func() {
		defer server.done()
		defer s.deferred.done()
		defer release()
		// Keep the values of the call's context, but not its end: the notification outlives the call.
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(life, func() { cancel(errSessionEnded) })()
		s.notifyWhenDone(ctx, a)
	}()
	return true
}

// notifyWhenDone queues a notification when its function reports that it is due.
func (s *Session) notifyWhenDone(ctx context.Context, a rpc.DeferredNotification) {
	pause := time.NewTimer(rpc.MinPollInterval) // send the response to the call first
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return
	}
	switch finished, err := rpc.Poll(ctx, a.Timeout, rpc.RecoverPanics(a.Done)); {
	case ctx.Err() != nil:
	case err != nil:
		s.server.Logger.WarnContext(ctx,
			"cannot notify the client of the end of a URL elicitation: RequiredURL.Done failed",
			"method", a.Method, "error", err)
	case finished:
		s.Notify(jsonrpc.AppendNotification(nil, a.Method, a.Params))
	}
}

// tryBegin counts one more deferred notification of the session and returns the context that the end
// of the session cancels. It reports false if the limit is reached.
func (a *deferredNotifications) tryBegin(parent context.Context) (life context.Context, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.n >= maxSessionDeferred {
		return nil, false
	}
	if a.n == 0 {
		a.life, a.end = context.WithCancel(parent)
	}
	a.n++
	return a.life, true
}

func (a *deferredNotifications) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n--; a.n == 0 {
		a.end()
		a.life, a.end = nil, nil
	}
}

func (a *deferredNotifications) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func (a *deferredNotifications) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.end != nil {
		a.end()
	}
}

// Notify implements rpc.SessionNotifier. It queues the notification for the session's standalone stream.
func (s *Session) Notify(notification []byte) {
	s, release := s.current()
	if s == nil {
		return
	}
	defer release()
	a := &s.deferred
	a.mu.Lock()
	if len(a.queued) == maxQueuedNotifications {
		a.queued = a.queued[1:]
	}
	a.queued = append(a.queued, notification)
	a.mu.Unlock()
	s.subscriptions.wake()
	if s.stored != nil && s.stored.sessions.Replicas != nil && !s.subscriptions.isOpen() {
		s.stored.sessions.Replicas.Waiting(s.stored.key)
	}
}

// Listens implements rpc.SessionNotifier.
func (s *Session) Listens() bool {
	s, release := s.current()
	if s == nil {
		return false
	}
	defer release()
	return s.subscriptions.isOpen() || s.stored != nil && s.stored.sessions.Replicas != nil
}

// takeQueued returns the queued notifications and clears the queue.
func (a *deferredNotifications) takeQueued() [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.queued
	a.queued = nil
	return all
}

// NotificationQueue holds the notifications that belong to no request: changes and
// deferred notifications. The transport delivers them.
type NotificationQueue struct {
	session *Session
	changes *changes.Subscription
}

// Wake returns a channel that receives a value when notifications are queued.
func (q *NotificationQueue) Wake() <-chan struct{} { return q.changes.Ready() }

// Take returns the queued notifications and clears the queue.
func (q *NotificationQueue) Take() [][]byte {
	var all [][]byte
	if q.session.subscriptions.isCurrent(q.changes) { // otherwise a newer queue delivers them
		all = q.session.deferred.takeQueued()
	}
	for _, c := range q.changes.Take() {
		all = append(all, jsonrpc.AppendNotification(nil, c.Kind.Method(), c.AppendParams(nil, jsonrpc.ID{})))
	}
	return all
}

// Resync queues a notification of each list and of each resource to which the client has subscribed, because changes
// may have been missed.
func (q *NotificationQueue) Resync() { q.changes.Resync() }

// Close ends the queue. It may be called more than once.
func (q *NotificationQueue) Close() {
	q.session.subscriptions.release(q.changes)
	q.changes.Close()
}

// HandOver ends the queue of a stream that another has replaced. The notifications that are left go to the newer
// stream, which may be one of another replica.
func (q *NotificationQueue) HandOver() {
	left := q.Take()
	q.Close()
	for _, notification := range left {
		q.session.Notify(notification)
	}
}
