package httpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// Limits of the event log of a session, from which clients resume streams. The store adds a limit for the process.
const (
	maxLoggedEvents = 1_000           // per stream
	maxLoggedBytes  = 4 << 20         // per session
	logTTL          = 5 * time.Minute // time to live after the last event of the session
)

// sessionStream is one stream of a session. It outlives its connection: it numbers its
// events and logs them, so that a client can resume the stream after the last event that
// it has received (2025-11-25, basic/transports, Resumability and Redelivery).
//
// sendLock serializes sending and the change of connections. Each connection therefore carries the events in order and
// without duplicates or gaps. A sessionStream is safe for concurrent use.
type sessionStream struct {
	all      *Streams
	key      store.StreamKey
	sendLock chan struct{} // a lock for send and resume that respects contexts
	done     chan struct{} // closed by end
	feed     *feed         // of the standalone stream; nil for the stream of a request
	// replay means that the stream has ended and exists only to send logged events again.
	replay bool
	// follows means that the call of the stream may still run at another replica, which logs its events.
	// replay is set as well.
	follows bool
	origin  []byte // see entry; empty if no other replica uses the log
	// has a value if another replica has logged events; nil unless follows, or the stream was taken over
	wake chan struct{}

	mu         sync.Mutex
	last       uint64    // number of the last event
	opened     uint64    // number of the entry that was logged before the first event; 0: none
	logged     time.Time // when the last entry was logged
	final      bool      // the last entry is logged
	leased     bool      // end releases the lease of this replica
	followed   time.Time // until when another replica follows the stream
	incomplete bool      // an event is not in the log: the stream cannot be resumed
	ended      bool
	dropped    bool          // the session has ended
	conn       *eventStream  // nil while the client is disconnected
	connDone   chan struct{} // closed when the stream stops using conn; nil if conn is the response to a POST
	expiry     *time.Timer   // ends a standalone stream if its client does not reconnect; may be nil
}

// lock acquires sendLock. The error is the cause of ctx.
func (s *sessionStream) lock(ctx context.Context) error {
	select {
	case s.sendLock <- struct{}{}: // without a wait, which costs more
		return nil
	default:
	}
	select {
	case s.sendLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *sessionStream) unlock() { <-s.sendLock }

// send logs a message of the given kind and sends it on the connection, if there is one.
// It waits for a slow reader. The error is the cause of ctx, or errTakenOver if another standalone stream has replaced
// this one. send does not retain message.
func (s *sessionStream) send(ctx context.Context, message []byte, kind byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	conn := s.connection()
	if conn != nil {
		// Wait before the event has a number: if the wait fails, the numbers have no gap.
		if err := conn.await(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			conn = nil
		}
	}
	seq := s.record(message, kind)
	if seq == 0 && s.feed != nil && s.hasEnded() {
		return errTakenOver
	}
	if conn != nil {
		conn.enqueue(func(dst []byte) []byte {
			if seq == 0 {
				return httpcodec.AppendMessage(dst, message)
			}
			return httpcodec.AppendNumbered(dst, s.key.Stream, seq, message)
		})
	}
	return nil
}

// record logs an entry and returns its number, or 0 if it has none for the client: it cannot be logged. The caller
// holds sendLock.
func (s *sessionStream) record(message []byte, kind byte) uint64 {
	s.mu.Lock()
	seq, skip := s.last+1, s.incomplete || s.ended
	s.mu.Unlock()
	if skip {
		return 0
	}
	buf := rpc.NewBuffer()
	defer rpc.FreeBuffer(buf)
	*buf = appendEntry(*buf, kind, s.origin, message)
	seq, err := s.write(seq, *buf)
	if errors.Is(err, errEndedElsewhere) {
		s.endElsewhere()
		return 0
	}

	s.mu.Lock()
	dropped, followed := s.dropped, false
	if err != nil {
		s.incomplete = true
	} else {
		now := time.Now()
		s.last, s.logged, s.final = seq, now, entry(*buf).isLast()
		if kind == entryOpened && seq == 1 {
			s.opened = seq
		}
		followed = now.Before(s.followed) || s.feed != nil && s.ended
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.all.logFailed(err)
	case dropped: // the session ended meanwhile
		s.all.drop(s.key.Group)
	case followed:
		s.all.notify(s.key, false)
	}
	return seq
}

// write logs an entry as number seq, or as a later one if another replica has logged events of a standalone stream. It
// returns the number of the event for the client, even with some errors. The error is errEndedElsewhere if another
// replica has ended or taken over the stream, or that of the store. The caller holds sendLock.
func (s *sessionStream) write(seq uint64, e entry) (number uint64, err error) {
	if seq == 1 {
		if err := s.takeLease(); err != nil {
			return 0, err
		}
	}
	for attempt := 0; ; attempt++ {
		if err = s.all.append(s.key, seq, e); errors.Is(err, store.ErrConflict) {
			err = s.explain(seq, e)
		}
		if !errors.Is(err, errEndedElsewhere) || s.feed == nil || attempt == maxCatchUps {
			break
		}
		if seq, err = s.catchUp(context.Background()); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		return seq, nil
	case errors.Is(err, errEndedElsewhere) || len(s.origin) == 0:
		return 0, err
	}
	return s.logFailure(seq, e, err)
}

func (s *sessionStream) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *sessionStream) connection() *eventStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// isConnected reports whether a client receives the events, here or at another replica.
func (s *sessionStream) isConnected() bool {
	s.mu.Lock()
	conn, followed := s.conn, s.followed
	s.mu.Unlock()
	return conn != nil && conn.isOpen() || time.Now().Before(followed)
}

var errTakenOver = errors.New("another connection has taken over the stream")

// errUnknownEvent means that an event id names no event in the log of the session.
var errUnknownEvent = errors.New("event not found in the session")

// errNotFinal means that a stream without a call on this replica has no final event in its log.
var errNotFinal = fmt.Errorf("%w: the stream has ended and its last event is not logged", store.ErrPurged)

// entriesAfter returns the log after entry seq. The error is errUnknownEvent,
// store.ErrPurged if some of the entries are no longer logged, or that of the store.
func (s *sessionStream) entriesAfter(ctx context.Context, seq uint64) (entries [][]byte, err error) {
	s.mu.Lock()
	last, incomplete, ended := s.last, s.incomplete, s.ended
	s.mu.Unlock()
	switch {
	case incomplete, ended && s.feed != nil: // notifications after the end are not logged
		return nil, store.ErrPurged
	case !s.replay && seq > last:
		return nil, errUnknownEvent
	case !s.replay && seq == last:
		return nil, nil
	}
	entries, err = s.all.read(ctx, s.key, seq)
	switch {
	case errors.Is(err, store.ErrNotFound) && !s.replay:
		return nil, store.ErrPurged
	case errors.Is(err, store.ErrNotFound):
		return nil, errUnknownEvent
	case err != nil:
		return nil, err
	}
	final := entries
	if s.replay && len(entries) == 0 { // the client has all events if event seq is the final one
		if final, err = s.all.read(ctx, s.key, seq-1); err != nil {
			return nil, err
		}
		if entries = final[1:]; final[0][0] == entryUnlogged { // the client has another event with this number
			entries = final
		}
	}
	if last := entry(final[len(final)-1]); s.replay && !s.follows && !last.isLast() {
		return nil, errNotFinal
	}
	return entries, nil
}

// sendLogged sends the messages of entries, the first of which has number seq+1. It returns the number of the last.
func (s *sessionStream) sendLogged(conn *eventStream, seq uint64, entries [][]byte) (last uint64) {
	for _, e := range entries {
		seq++
		if message := entry(e).message(); message != nil {
			conn.enqueue(func(dst []byte) []byte { return httpcodec.AppendNumbered(dst, s.key.Stream, seq, message) })
		}
	}
	return seq
}

// resume makes conn the connection of the stream and sends it the events after seq. The previous connection ends.
// connDone is closed when the stream stops using conn. It returns the error of entriesAfter or the cause of ctx.
func (s *sessionStream) resume(ctx context.Context, seq uint64, conn *eventStream) (connDone <-chan struct{},
	err error) {
	if _, err := s.entriesAfter(ctx, seq); err != nil {
		return nil, err // before the previous connection ends
	}
	s.dropConnection() // a send that waits for its reader holds sendLock
	defer func() {
		if err != nil {
			s.disconnected(nil) // the stream has no connection now
		}
	}()
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	entries, err := s.entriesAfter(ctx, seq)
	if err != nil {
		return nil, err
	}
	s.dropConnection() // another connection may have resumed the stream first
	conn.enqueue(httpcodec.AppendComment)
	if last := s.sendLogged(conn, seq, entries); s.follows {
		s.mu.Lock()
		s.last = last
		s.mu.Unlock()
	}
	return s.connect(conn), nil
}

// connect makes conn the connection of the stream. connDone is closed when the stream stops using it.
func (s *sessionStream) connect(conn *eventStream) (connDone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.conn, s.connDone = conn, make(chan struct{})
	return s.connDone
}

// dropConnection ends the connection of the stream, if there is one.
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

// disconnected records that conn has ended and the stream has not. A nil conn means that dropConnection has ended the
// connection and no other has replaced it. A standalone stream ends unless its client reconnects within logTTL.
func (s *sessionStream) disconnected(conn *eventStream) {
	over := s.all.isClosed() // no client reconnects to a server that shuts down
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
		s.expiry = time.AfterFunc(logTTL, s.expire)
	}
	s.mu.Unlock()
	if s.feed != nil && over {
		s.end()
	}
}

// end ends the stream. Its log entries remain until they expire. end may be called more than once.
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
	leased := s.leased
	s.mu.Unlock()
	s.all.remove(s)
	if leased {
		s.all.Lease.Release()
	}
	if s.feed != nil {
		s.endStandalone()
	}
}
