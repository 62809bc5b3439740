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
	maxAwaited           = 1_024 // of all sessions
	maxAwaitedPerSession = 16
	maxUnheard           = 64 // that wait for a client to listen; of more, the oldest go
)

// awaited is the announcements that all sessions wait for. They end with Close.
type awaited struct {
	mu      sync.Mutex
	n       int
	closed  bool
	life    context.Context // made when first needed
	end     context.CancelFunc
	running sync.WaitGroup
}

// begin counts one more, unless there are too many, and returns the context in which
// those of the server end.
func (a *awaited) begin() (life context.Context, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.n >= maxAwaited {
		return nil, false
	}
	if a.life == nil {
		a.life, a.end = context.WithCancel(context.Background())
	}
	a.n++
	a.running.Add(1)
	return a.life, true
}

func (a *awaited) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n--
	a.running.Done()
}

// Close ends what sessions wait for to announce it, and waits until it has ended, or ctx
// has.
func (s *Server) Close(ctx context.Context) error {
	a := &s.awaited
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
type voice struct {
	mu     sync.Mutex
	n      int  // awaited
	closed bool // the session has ended
	life   context.Context
	end    context.CancelFunc
	unsaid [][]byte
}

var _ rpc.Voice = (*Session)(nil)

// Announce implements call.Voice.
func (s *Session) Announce(ctx context.Context, a rpc.Announcement) bool {
	server := &s.server.awaited
	all, ok := server.begin()
	if !ok {
		return false
	}
	life, ok := s.voice.begin(all)
	if !ok {
		server.done()
		return false
	}
	if s.kept != nil {
		s.kept.retain()
	}
	go func() {
		defer server.done()
		defer s.voice.done()
		if s.kept != nil {
			defer s.kept.Release()
		}
		// Of the call's context, the values: its end is not that of what it was refused for.
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(life, func() { cancel(errSessionEnded) })()
		s.await(ctx, a)
	}()
	return true
}

// await sends an announcement when it is time.
func (s *Session) await(ctx context.Context, a rpc.Announcement) {
	pause := time.NewTimer(rpc.FirstPoll) // the call's answer comes first
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return
	}
	switch finished, err := rpc.Poll(ctx, a.Patience, contained(a.Done)); {
	case ctx.Err() != nil:
	case err != nil:
		s.server.Logger.WarnContext(ctx, "nobody is told whether a user is done: what tells so has failed", "method", a.Method, "error", err)
	case finished:
		s.say(jsonrpc.AppendNotification(nil, a.Method, a.Params))
	}
}

// contained is done, with an error instead of a panic: it runs in a goroutine of ours.
func contained(done func(context.Context) (bool, error)) func(context.Context) (bool, error) {
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
func (v *voice) begin(all context.Context) (life context.Context, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.n >= maxAwaitedPerSession {
		return nil, false
	}
	if v.n == 0 {
		v.life, v.end = context.WithCancel(all)
	}
	v.n++
	return v.life, true
}

func (v *voice) done() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n--; v.n == 0 {
		v.end()
		v.life, v.end = nil, nil
	}
}

func (v *voice) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.end != nil {
		v.end()
	}
}

// say has a notification sent on the session's own stream, when there is one.
func (s *Session) say(notification []byte) {
	v := &s.voice
	v.mu.Lock()
	if len(v.unsaid) == maxUnheard {
		v.unsaid = v.unsaid[1:]
	}
	v.unsaid = append(v.unsaid, notification)
	v.mu.Unlock()
	s.subscriptions.rouse()
}

// take returns what is to be said, and forgets it.
func (v *voice) take() [][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.unsaid
	v.unsaid = nil
	return all
}

// Listening is what a session says by itself, for whoever carries it to the client: of
// changes, and of what has been announced.
type Listening struct {
	session *Session
	changes *rpc.Subscription
}

// Wake receives when there is something to Take.
func (l *Listening) Wake() <-chan struct{} { return l.changes.Wake() }

// Take returns the notifications that are to be sent now.
func (l *Listening) Take() [][]byte {
	var all [][]byte
	if l.session.subscriptions.isOpen(l.changes) { // or else a newer stream says it
		all = l.session.voice.take()
	}
	for _, c := range l.changes.Take() {
		all = append(all, jsonrpc.AppendNotification(nil, c.Kind.Method(), c.AppendParams(nil, jsonrpc.ID{})))
	}
	return all
}

// Close ends it. It may be called more than once.
func (l *Listening) Close() { l.changes.Close() }
