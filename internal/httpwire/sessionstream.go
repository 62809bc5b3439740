package httpwire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// Bounds on what is held of streams, for clients that come back. The process has one
// bound more, which is the store's.
const (
	maxLoggedEvents = 1_000           // of one stream
	maxLoggedBytes  = 4 << 20         // of one session
	logTTL          = 5 * time.Minute // after the session's last event
)

// sessionStream is one stream of a session. What is sent on it is numbered and held
// for a while, so that it outlives its connection: the stream goes on where a client
// that comes back says that it has lost it (2025-11-25, basic/transports,
// Resumability and Redelivery).
//
// Whoever sends, and whoever gives the stream another connection, does so in turn. So
// each connection carries the events in order, none of them twice, and none is left
// out that the client has not asked to leave out.
type sessionStream struct {
	all      *Streams
	key      store.StreamKey
	sendLock chan struct{} // held by whoever sends or resumes
	done     chan struct{} // closed when nothing more is sent
	feed     *feed         // of the standalone stream; nil for that of a request
	// revived: the stream had ended, and what is held of it is sent again.
	replay bool

	mu         sync.Mutex
	last       uint64 // the number of the last event
	incomplete bool   // not every event is held: the stream cannot be resumed
	ended      bool
	dropped    bool          // the session has ended
	conn       *eventStream  // where events go; nil while the client is away
	connDone   chan struct{} // closed when conn is not the stream's any more; nil if that is nobody's concern
	expiry     *time.Timer   // ends a standalone stream whose client stays away; may be nil
}

// feed is what the standalone stream of a session tells of, and the session.
type feed struct {
	live          *legacy.StoredSession // released when the stream ends
	taken         <-chan struct{}
	notifications *legacy.NotificationQueue
}

// A held event is its message behind one byte, which tells whether it is the last.
const (
	entryMessage = 'm'
	entryFinal   = 'f'
)

func (s *sessionStream) lock(ctx context.Context) error {
	select {
	case s.sendLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sessionStream) unlock() { <-s.sendLock }

// send sends a message, which is the last one or not. It waits for a reader who is
// slow, but not for one who is away: the message is held, and that is all. The error
// is the context's.
func (s *sessionStream) send(ctx context.Context, message []byte, kind byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	conn := s.connection()
	if conn != nil {
		// Before the event has a number: if it is not sent after all, nothing is missing.
		if err := conn.await(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			conn = nil
		}
	}
	seq := s.record(message, kind)
	if conn != nil {
		conn.enqueue(func(dst []byte) []byte {
			if seq == 0 {
				return appendEvent(dst, "", message)
			}
			return appendNumbered(dst, s.key.Stream, seq, message)
		})
	}
	return nil
}

// hold keeps an event and returns its number; 0 if it cannot be kept. It is called in
// turn.
func (s *sessionStream) record(message []byte, kind byte) uint64 {
	s.mu.Lock()
	seq, skip := s.last+1, s.incomplete || s.ended
	s.mu.Unlock()
	if skip {
		return 0
	}
	buf := buffers.Get().(*[]byte)
	entry := append(append((*buf)[:0], kind), message...)
	err := s.all.append(s.key, seq, entry)
	recycle(buf, entry)

	s.mu.Lock()
	dropped := s.dropped
	if err != nil {
		s.incomplete = true
		seq = 0
	} else {
		s.last = seq
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.all.logger.Warn("an event is not held: its stream cannot be resumed any more", "error", err)
	case dropped: // meanwhile
		s.all.drop(s.key.Group)
	}
	return seq
}

func (s *sessionStream) connection() *eventStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

var errTakenOver = errors.New("another connection has taken over the stream")

// errNotHeld: there is no such event, or its stream is not held any more.
var errUnknownEvent = errors.New("the session has no such event, or no longer")

// after returns the messages that follow the event with number seq. The error is
// errNotHeld, store.ErrPurged if some of them are not held any more, or the store's.
func (s *sessionStream) eventsAfter(ctx context.Context, seq uint64) (messages [][]byte, err error) {
	s.mu.Lock()
	last, incomplete, ended := s.last, s.incomplete, s.ended
	s.mu.Unlock()
	switch {
	case incomplete, ended && s.feed != nil: // nobody knows what has changed since
		return nil, store.ErrPurged
	case !s.replay && seq > last:
		return nil, errUnknownEvent
	case !s.replay && seq == last:
		return nil, nil
	}
	entries, err := s.all.log.ReadAfter(ctx, s.key, seq)
	switch {
	case errors.Is(err, store.ErrNotFound) && !s.replay:
		return nil, store.ErrPurged
	case errors.Is(err, store.ErrNotFound):
		return nil, errUnknownEvent
	case err != nil:
		return nil, err
	}
	final := entries
	if s.replay && len(entries) == 0 { // the client has it all, if this is all
		if final, err = s.all.log.ReadAfter(ctx, s.key, seq-1); err != nil {
			return nil, err
		}
	}
	if s.replay && final[len(final)-1][0] != entryFinal {
		return nil, fmt.Errorf("%w: the stream has ended, and its last event is not held", store.ErrPurged)
	}
	for i, entry := range entries {
		entries[i] = entry[1:]
	}
	return entries, nil
}

// resume gives the stream another connection, on which it goes on behind event seq.
// Whatever connection it had ends. Left is closed when this one is to end. The error
// is that of after, or the context's.
func (s *sessionStream) resume(ctx context.Context, seq uint64, conn *eventStream) (connDone <-chan struct{}, err error) {
	if _, err := s.eventsAfter(ctx, seq); err != nil {
		return nil, err // nobody's connection ends for that
	}
	s.dropConnection() // or else this would wait for whoever waits for the reader of it
	defer func() {
		if err != nil {
			s.disconnected(nil) // the connection that was cut does not come back
		}
	}()
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	messages, err := s.eventsAfter(ctx, seq)
	if err != nil {
		return nil, err
	}
	s.dropConnection() // somebody was faster
	conn.enqueue(appendComment)
	for i, message := range messages {
		conn.enqueue(func(dst []byte) []byte {
			return appendNumbered(dst, s.key.Stream, seq+1+uint64(i), message)
		})
	}
	return s.connect(conn), nil
}

// connect makes conn the connection of the stream. Left is closed when it is so no
// more.
func (s *sessionStream) connect(conn *eventStream) (connDone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.conn, s.connDone = conn, make(chan struct{})
	return s.connDone
}

// cut ends the connection that the stream has.
func (s *sessionStream) dropConnection() {
	s.mu.Lock()
	conn, connDone := s.conn, s.connDone
	s.conn, s.connDone = nil, nil
	s.mu.Unlock()
	if conn == nil {
		return
	}
	conn.interrupt(errTakenOver)
	if connDone != nil {
		close(connDone)
	} else {
		conn.disconnect()
	}
}

// away notes that a connection has ended without the stream having ended; nil, if it was
// cut for another that has not come. Who waits for changes comes back soon, or begins anew.
func (s *sessionStream) disconnected(conn *eventStream) {
	over := s.all.isClosed() // nobody comes back to a server that shuts down
	s.mu.Lock()
	if s.conn != conn {
		s.mu.Unlock()
		return
	}
	s.conn, s.connDone = nil, nil
	if s.feed != nil && !s.ended && !over {
		if s.expiry != nil {
			s.expiry.Stop()
		}
		s.expiry = time.AfterFunc(logTTL, s.end)
	}
	s.mu.Unlock()
	if s.feed != nil && over {
		s.end()
	}
}

// pause ends the connection of the stream while the stream goes on. The client is told
// to come back after some time.
func (s *sessionStream) closeConnection(ctx context.Context, retry time.Duration) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.mu.Lock()
	conn, connDone, seq, incomplete := s.conn, s.connDone, s.last, s.incomplete
	s.mu.Unlock()
	switch {
	case conn == nil: // the client is away
		return nil
	case incomplete:
		return fmt.Errorf("%w: what the client would come back for is not held", rpc.ErrUnsupported)
	}
	conn.enqueue(func(dst []byte) []byte { return appendPriming(dst, s.key.Stream, seq, retry.Milliseconds()) })
	if connDone == nil && !conn.disconnect() {
		return fmt.Errorf("%w: the connection cannot be ended ahead of the response", rpc.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != conn { // taken over
		return nil
	}
	s.conn, s.connDone = nil, nil
	if connDone != nil {
		close(connDone)
	}
	return nil
}

// end says that nothing more is sent. What is held stays for its time. It may be
// called more than once.
func (s *sessionStream) end() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	close(s.done)
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.mu.Unlock()
	s.all.remove(s)
	if s.feed != nil {
		s.feed.notifications.Close()
		s.feed.live.Release()
	}
}
