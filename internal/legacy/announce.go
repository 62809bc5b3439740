package legacy

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Limits on pending announcements. Each needs a goroutine.
const (
	maxAnnouncements        = 1_024 // of all sessions
	maxSessionAnnouncements = 16
	maxQueuedNotifications  = 64 // without a listener; the oldest are dropped first
)

// announcementLimit counts the pending announcements of all sessions. Close cancels them.
type announcementLimit struct {
	mu      sync.Mutex
	n       int
	closed  bool
	life    context.Context // created on first use
	end     context.CancelFunc
	running sync.WaitGroup
}

// tryBegin counts one more announcement and returns the context that Close cancels. It
// reports false if the limit is reached.
func (a *announcementLimit) tryBegin() (life context.Context, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.n >= maxAnnouncements {
		return nil, false
	}
	if a.life == nil {
		a.life, a.end = context.WithCancel(context.Background())
	}
	a.n++
	a.running.Add(1)
	return a.life, true
}

func (a *announcementLimit) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n--
	a.running.Done()
}

// Close cancels all pending announcements and waits until they have ended, or until ctx
// ends.
func (s *Server) Close(ctx context.Context) error {
	a := &s.announcing
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

// announcements holds the pending announcements and the queued notifications of one
// session.
type announcements struct {
	mu     sync.Mutex
	n      int  // pending
	closed bool // the session has ended
	life   context.Context
	end    context.CancelFunc
	queued [][]byte
}

var _ rpc.Voice = (*Session)(nil)

// Announce implements rpc.Voice.
func (s *Session) Announce(ctx context.Context, a rpc.Announcement) bool {
	server := &s.server.announcing
	all, ok := server.tryBegin()
	if !ok {
		return false
	}
	life, ok := s.announcements.tryBegin(all)
	if !ok {
		server.done()
		return false
	}
	if s.stored != nil {
		s.stored.retain()
	}
	go func() {
		defer server.done()
		defer s.announcements.done()
		if s.stored != nil {
			defer s.stored.Release()
		}
		// Keep the values of the call's context, but not its end: the announcement outlives
		// the call.
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(life, func() { cancel(errSessionEnded) })()
		s.awaitAnnouncement(ctx, a)
	}()
	return true
}

// awaitAnnouncement sends an announcement when its function reports that it is due.
func (s *Session) awaitAnnouncement(ctx context.Context, a rpc.Announcement) {
	pause := time.NewTimer(rpc.FirstPoll) // send the response to the call first
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return
	}
	switch finished, err := rpc.Poll(ctx, a.Patience, recoverPanics(a.Done)); {
	case ctx.Err() != nil:
	case err != nil:
		s.server.Logger.WarnContext(ctx, "cannot announce the end of a URL elicitation: RequiredURL.Done failed", "method", a.Method, "error", err)
	case finished:
		s.queueNotification(jsonrpc.AppendNotification(nil, a.Method, a.Params))
	}
}

// recoverPanics returns done with panics converted to errors, because it runs in a
// goroutine of the server.
func recoverPanics(done func(context.Context) (bool, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (finished bool, err error) {
		defer func() {
			if v := recover(); v != nil {
				finished, err = false, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		return done(ctx)
	}
}

// tryBegin counts one more announcement of the session and returns the context that the end
// of the session cancels. It reports false if the limit is reached.
func (v *announcements) tryBegin(all context.Context) (life context.Context, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.n >= maxSessionAnnouncements {
		return nil, false
	}
	if v.n == 0 {
		v.life, v.end = context.WithCancel(all)
	}
	v.n++
	return v.life, true
}

func (v *announcements) done() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n--; v.n == 0 {
		v.end()
		v.life, v.end = nil, nil
	}
}

func (v *announcements) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.end != nil {
		v.end()
	}
}

// queueNotification queues a notification for the session's standalone stream.
func (s *Session) queueNotification(notification []byte) {
	v := &s.announcements
	v.mu.Lock()
	if len(v.queued) == maxQueuedNotifications {
		v.queued = v.queued[1:]
	}
	v.queued = append(v.queued, notification)
	v.mu.Unlock()
	s.subscriptions.wake()
}

// takeQueued returns the queued notifications and clears the queue.
func (v *announcements) takeQueued() [][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.queued
	v.queued = nil
	return all
}

// NotificationQueue holds the notifications that belong to no request: changes and
// announcements. The transport delivers them.
type NotificationQueue struct {
	session *Session
	changes *rpc.Subscription
}

// Wake returns a channel that receives a value when notifications are queued.
func (l *NotificationQueue) Wake() <-chan struct{} { return l.changes.Wake() }

// Take returns the queued notifications and clears the queue.
func (l *NotificationQueue) Take() [][]byte {
	var all [][]byte
	if l.session.subscriptions.isCurrent(l.changes) { // otherwise a newer queue delivers the announcements
		all = l.session.announcements.takeQueued()
	}
	for _, c := range l.changes.Take() {
		all = append(all, jsonrpc.AppendNotification(nil, c.Kind.Method(), c.AppendParams(nil, jsonrpc.ID{})))
	}
	return all
}

// Close ends the queue. It may be called more than once.
func (l *NotificationQueue) Close() { l.changes.Close() }
