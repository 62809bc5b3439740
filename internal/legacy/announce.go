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

// Bounds on announcements. Each is a goroutine while it is awaited.
const (
	maxAnnouncements        = 1_024 // of all sessions
	maxSessionAnnouncements = 16
	maxQueuedNotifications  = 64 // that wait for a client to listen; of more, the oldest go
)

// awaited is the announcements that all sessions wait for. They end with Close.
type announcementLimit struct {
	mu      sync.Mutex
	n       int
	closed  bool
	life    context.Context // made when first needed
	end     context.CancelFunc
	running sync.WaitGroup
}

// begin counts one more, unless there are too many, and returns the context in which
// those of the server end.
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

// Close ends what sessions wait for to announce it, and waits until it has ended, or ctx
// has.
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
		return fmt.Errorf("what is called until users are done does not end: %w", ctx.Err())
	}
}

// voice is what a session says by itself beside changes.
type announcements struct {
	mu     sync.Mutex
	n      int  // awaited
	closed bool // the session has ended
	life   context.Context
	end    context.CancelFunc
	queued [][]byte
}

var _ rpc.Voice = (*Session)(nil)

// Announce implements call.Voice.
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
		// Of the call's context, the values: its end is not that of what it was refused for.
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(life, func() { cancel(errSessionEnded) })()
		s.awaitAnnouncement(ctx, a)
	}()
	return true
}

// await sends an announcement when it is time.
func (s *Session) awaitAnnouncement(ctx context.Context, a rpc.Announcement) {
	pause := time.NewTimer(rpc.FirstPoll) // the call's answer comes first
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return
	}
	switch finished, err := rpc.Poll(ctx, a.Patience, recoverPanics(a.Done)); {
	case ctx.Err() != nil:
	case err != nil:
		s.server.Logger.WarnContext(ctx, "nobody is told whether a user is done: what tells so has failed", "method", a.Method, "error", err)
	case finished:
		s.queueNotification(jsonrpc.AppendNotification(nil, a.Method, a.Params))
	}
}

// contained is done, with an error instead of a panic: it runs in a goroutine of ours.
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

// begin counts one more announcement that is awaited, unless there are too many, and
// returns the context in which those of the session end.
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

// say has a notification sent on the session's own stream, when there is one.
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

// take returns what is to be said, and forgets it.
func (v *announcements) takeQueued() [][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.queued
	v.queued = nil
	return all
}

// Listening is what a session says by itself, for whoever carries it to the client: of
// changes, and of what has been announced.
type NotificationQueue struct {
	session *Session
	changes *rpc.Subscription
}

// Wake receives when there is something to Take.
func (l *NotificationQueue) Wake() <-chan struct{} { return l.changes.Wake() }

// Take returns the notifications that are to be sent now.
func (l *NotificationQueue) Take() [][]byte {
	var all [][]byte
	if l.session.subscriptions.isCurrent(l.changes) { // or else a newer stream says it
		all = l.session.announcements.takeQueued()
	}
	for _, c := range l.changes.Take() {
		all = append(all, jsonrpc.AppendNotification(nil, c.Kind.Method(), c.AppendParams(nil, jsonrpc.ID{})))
	}
	return all
}

// Close ends it. It may be called more than once.
func (l *NotificationQueue) Close() { l.changes.Close() }
