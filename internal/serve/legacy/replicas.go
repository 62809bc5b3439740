package legacy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/store"
)

// Replicas tells the other replicas about a session, which its store key names. Its methods except Serves do not
// block, and a replica may miss a message.
type Replicas interface {
	// ID returns the id of this replica.
	ID() string
	// Serves reports whether another replica is alive and is not shutting down.
	Serves(ctx context.Context, replica string) (bool, error)
	// Changed says that the record has changed. The others call Refresh.
	Changed(session string)
	// Ended says that the record was deleted. The others call Forget and then Refresh.
	Ended(session string)
	// Listening says that this replica has the newest standalone stream. The others call Refresh and then HandOver.
	Listening(session string)
	// Waiting says that this replica has a notification but no standalone stream. A replica with the
	// stream answers with Listening; see Sessions.AnswerWaiting.
	Waiting(session string)
}

// Refresh adopts the changes of other replicas to a session that is in use. If the session has ended, Refresh
// cancels its requests in flight in this process and returns ErrNoSession. Other errors are the store's.
func (s *Sessions) Refresh(ctx context.Context, key string) error {
	s.mu.Lock()
	ss := s.byKey[key]
	if ss == nil || ss.refs == 0 { // its next use reads the record
		s.mu.Unlock()
		return nil
	}
	before := ss.version
	s.mu.Unlock()
	item, err := s.store.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.end(ss.sessionRef, key)
		return ErrNoSession
	case err != nil:
		return err
	}
	if ss, err = s.adopt(ss.sessionRef, key, ss, before, item, true); err != nil {
		return err
	}
	ss.Release()
	return nil
}

// Forget removes a session that has ended from memory if it is not in use.
func (s *Sessions) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss := s.byKey[key]; ss != nil && ss.refs == 0 {
		s.evict(ss)
	}
}

// RefreshAll calls refresh, which calls Refresh, for all sessions in use.
func (s *Sessions) RefreshAll(ctx context.Context, refresh func(key string)) {
	s.mu.Lock()
	used := make(map[string]struct{})
	for _, ss := range s.live {
		if ss.refs > 0 {
			used[ss.key] = struct{}{}
		}
	}
	s.mu.Unlock()
	keys := slices.Collect(maps.Keys(used))
	_ = concurrently(ctx, maxRenewals, len(keys), func(i int) error {
		refresh(keys[i])
		return nil
	})
}

// HandOver passes the queued notifications of a session to send, because another replica has the standalone stream.
func (s *Sessions) HandOver(key string, send func(notification []byte)) {
	s.mu.Lock()
	ss := s.byKey[key]
	s.mu.Unlock()
	if ss == nil || ss.subscriptions.isOpen() {
		return
	}
	for _, notification := range ss.deferred.takeQueued() {
		send(notification)
	}
}

// Notify queues a notification of another replica for a session, if this replica has served the session lately.
func (s *Sessions) Notify(key string, notification []byte) {
	s.mu.Lock()
	ss := s.byKey[key]
	if ss != nil {
		s.acquire(ss)
	}
	s.mu.Unlock()
	if ss != nil {
		ss.Notify(notification)
		ss.Release()
	}
}

// Listening returns the session with a store key if this replica has its standalone stream, or nil.
func (s *Sessions) Listening(key string) *Session {
	s.mu.Lock()
	ss := s.byKey[key]
	s.mu.Unlock()
	if ss == nil || !ss.subscriptions.isOpen() {
		return nil
	}
	return ss.Session
}

// AnswerWaiting answers Replicas.Waiting of another replica.
func (s *Sessions) AnswerWaiting(key string) {
	if s.Listening(key) != nil {
		s.Replicas.Listening(key)
	}
}

// beginStream records in the store that this replica has the standalone stream now, and returns the number
// of the stream in the session. If takeOver is set, the stream continues, and before is the replica that had it. The
// error is then ErrOtherStream if the newest stream has another name.
func (ss *StoredSession) beginStream(ctx context.Context, name string, takeOver bool) (number int, before string,
	err error) {
	replicas := ss.sessions.Replicas
	if replicas == nil {
		return 0, "", nil
	}
	err = ss.update(ctx, func(state *State) error {
		replica, newest, _ := strings.Cut(state.Stream, " ")
		if takeOver && newest != name {
			return ErrOtherStream
		}
		before = strings.Clone(replica)
		state.Streams++
		number, state.Stream = state.Streams, replicas.ID()+" "+name
		return nil
	})
	return number, before, err
}

// HasNewestStream reports whether no other replica has begun a standalone stream after this one.
func (ss *StoredSession) HasNewestStream(ctx context.Context) (bool, error) {
	item, err := ss.read(ctx, false)
	if err != nil {
		return false, err
	}
	state, err := DecodeState(item.Value)
	if err != nil {
		return false, err
	}
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	ss.setNewest(state.Streams)
	return ss.streams != nil, nil
}

// ForgetStream records in the store that the standalone stream of this replica has expired, so that no replica
// takes it over: the notifications since its client was connected are lost.
func (ss *StoredSession) ForgetStream() {
	if ss.sessions.Replicas == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	ss.sessions.mu.Lock()
	number := ss.number
	ss.sessions.mu.Unlock()
	err := ss.update(ctx, func(state *State) error {
		if state.Streams != number {
			return errUnchanged
		}
		state.Stream = ""
		return nil
	})
	if err != nil && !errors.Is(err, ErrNoSession) {
		ss.sessions.server.Logger.ErrorContext(ctx, "cannot record that the stream of a session has expired", "error",
			err)
	}
}

// setNewest ends the standalone stream if another replica has begun a newer one. The caller holds the mutex of
// sessions.
func (ss *StoredSession) setNewest(number int) {
	if ss.newest = max(ss.newest, number); ss.streams != nil && ss.newest > ss.number {
		close(ss.streams)
		ss.streams = nil
	}
}
