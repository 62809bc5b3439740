package httpserver

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/store"
)

// A client may resume the stream of a call at another replica than the one that runs the call. That replica follows the
// stream: it reads the events from the log. It asks the replica of the call to announce new events, and reads the log
// at intervals in case an announcement is lost. When the lease of the replica of the call has ended, the follower logs
// an error as the last event. Only one replica can log it.

const (
	// pollInterval is the time between two readings of the log without an announcement, and between two checks
	// whether the replica of the call has ended. The stream ends within lease.TTL and this time.
	pollInterval = 4 * time.Second
	// followedFor is the time for which events are announced after a follower has asked for it.
	followedFor = 3 * pollInterval
)

func (a *Streams) notify(key store.StreamKey, follow bool) {
	if a.Notify != nil {
		a.Notify(key, follow)
	}
}

// takeLease takes the lease of this replica before the first entry of a stream is logged, until the stream
// ends. The caller holds sendLock.
func (s *sessionStream) takeLease() error {
	if len(s.origin) == 0 {
		return nil
	}
	err := s.all.Lease.Take(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
	case s.ended:
		s.all.Lease.Release()
	default:
		s.leased = true
	}
	return err
}

// Follow announces the events of a stream that another replica follows, if the stream is one of this replica.
func (a *Streams) Follow(key store.StreamKey) {
	s := a.open(key)
	if s == nil || s.replay {
		return
	}
	s.mu.Lock()
	s.followed = time.Now().Add(followedFor)
	s.mu.Unlock()
	a.notify(key, false) // events may have been logged before the request arrived
}

// Wake makes this replica read the log of a stream if it follows the stream.
func (a *Streams) Wake(key store.StreamKey) {
	if s := a.open(key); s != nil {
		s.wakeFollower()
	}
}

// WakeAll makes this replica read the logs of all streams that it follows.
func (a *Streams) WakeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, streams := range a.sessions {
		for _, s := range streams {
			s.wakeFollower()
		}
	}
}

// open returns an open stream, or nil.
func (a *Streams) open(key store.StreamKey) *sessionStream {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.get(key.Group, key.Stream)
}

func (s *sessionStream) wakeFollower() {
	select {
	case s.wake <- struct{}{}:
	default: // also if wake is nil
	}
}

// follower is the state of one connection that follows a stream.
type follower struct {
	stream  *sessionStream
	ticker  *time.Ticker
	checked time.Time // when the replica of the call was checked
	leased  bool      // this replica has its lease, without which it cannot check another one
}

func (s *sessionStream) newFollower() *follower {
	return &follower{stream: s, ticker: time.NewTicker(pollInterval)}
}

// close ends the use of the follower.
func (f *follower) close() {
	f.ticker.Stop()
	if f.leased {
		f.stream.all.Lease.Release()
	}
}

// poll asks the replica of the call to announce events, and reads the log.
func (f *follower) poll(ctx context.Context) {
	if !f.leased {
		f.leased = f.stream.all.Lease.Take(ctx) == nil
	}
	f.stream.all.notify(f.stream.key, true)
	f.read(ctx)
}

// read sends the events that another replica has logged since the last call. It ends the stream
// after the last event, if the log no longer has its events, or if the replica has ended.
func (f *follower) read(ctx context.Context) {
	s := f.stream
	if s.lock(ctx) != nil {
		return
	}
	defer s.unlock()
	latest, added, err := s.readLogged(ctx)
	if err == nil && !added && !latest.isLast() && time.Since(f.checked) > pollInterval-pollInterval/8 {
		var ended bool
		if ended, err = s.hasLostReplica(ctx, latest); ended {
			if err = s.logLostResponse(latest); err == nil {
				latest, _, err = s.readLogged(ctx)
			}
		}
		f.checked = time.Now()
	}
	switch {
	case err == nil && !latest.isLast(), errors.Is(err, errSlowReader), ctx.Err() != nil:
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrPurged), errors.Is(err, errNoOrigin):
		s.end()
	default:
		s.all.logger.Warn("cannot follow a stream of another replica", "error", err)
	}
}

// errSlowReader means that the connection has ended, or will end by itself.
var errSlowReader = errors.New("the client does not read the stream")

// readLogged sends the messages that were logged since the last call. It returns the last entry. The caller
// holds sendLock.
func (s *sessionStream) readLogged(ctx context.Context) (latest entry, added bool, err error) {
	s.mu.Lock()
	conn, last := s.conn, s.last
	s.mu.Unlock()
	if conn == nil {
		return nil, false, errSlowReader
	}
	// Read the last entry again, because it says whether others follow.
	before := last - min(last, 1)
	entries, err := s.all.read(ctx, s.key, before)
	if err == nil && len(entries) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, false, err
	}
	if conn.await(ctx) != nil {
		return nil, false, errSlowReader
	}
	latest = entries[len(entries)-1]
	entries = entries[last-before:]
	now := s.sendLogged(conn, last, entries)
	s.mu.Lock()
	s.last = now
	s.mu.Unlock()
	return latest, len(entries) > 0, nil
}

// hasLostReplica reports whether the replica of the stream has ended.
func (s *sessionStream) hasLostReplica(ctx context.Context, latest entry) (bool, error) {
	replica := latest.replica()
	if replica == s.all.Lease.ID() { // the call has ended, and its response could not be logged
		return true, nil
	}
	return s.all.Lease.Ended(ctx, replica)
}

// logLostResponse logs an error as the last event after latest, unless another replica has logged an event.
// The caller holds sendLock.
func (s *sessionStream) logLostResponse(latest entry) error {
	lost, err := latest.lostResponse(entryFinal)
	if err != nil {
		return err
	}
	s.mu.Lock()
	seq := s.last + 1
	s.mu.Unlock()
	err = s.all.append(s.key, seq, lost)
	if err == nil {
		s.all.notify(s.key, false)
	}
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// errEndedElsewhere means that another replica has ended the stream, because the lease of this replica had ended.
var errEndedElsewhere = errors.New("another replica has ended the stream")

// explain returns nil if the log has e as entry seq. Otherwise it returns errEndedElsewhere or an error of the store.
func (s *sessionStream) explain(seq uint64, e entry) error {
	entries, err := s.all.read(context.Background(), s.key, seq-1)
	switch {
	case err != nil:
		return err
	case len(entries) > 0 && bytes.Equal(entries[0], e):
		return nil
	}
	return errEndedElsewhere
}

// endElsewhere ends a stream that another replica has ended. The client must not receive a second response.
func (s *sessionStream) endElsewhere() {
	if s.feed == nil {
		s.all.logger.Warn("another replica has taken over a stream, because the lease was not renewed in time")
	}
	s.mu.Lock()
	conn, connDone := s.conn, s.connDone
	s.conn, s.connDone = nil, nil
	s.mu.Unlock()
	if conn != nil {
		conn.interrupt(errEndedElsewhere)
	}
	if connDone != nil {
		close(connDone)
	}
	s.end()
}

// needsEntry reports whether an entry without a message must be logged: otherwise another replica does not
// know the stream, or its log expires.
func (s *sessionStream) needsEntry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.origin) > 0 && !s.incomplete && !s.ended && time.Since(s.logged) > logTTL/2
}

// keepLogged logs an entry without a message, unless an event is being sent.
func (s *sessionStream) keepLogged() {
	select {
	case s.sendLock <- struct{}{}:
		s.record(nil, entryOpened)
		s.unlock()
	default:
	}
}

// logEnd logs that a stream has ended without a response, if other replicas know the stream.
func (s *sessionStream) logEnd() {
	if len(s.origin) == 0 || s.lock(context.Background()) != nil {
		return
	}
	defer s.unlock()
	s.mu.Lock()
	known := s.last > 0 && !s.final && !s.ended
	s.mu.Unlock()
	if known {
		s.record(nil, entryEnded)
	}
}
