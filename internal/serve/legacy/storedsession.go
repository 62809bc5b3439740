package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// StoredSession is a stored session in memory: while it is in use, and as long as the cache keeps it.
type StoredSession struct {
	*Session
	sessionRef
	key      string // in the store
	sessions *Sessions

	inflight *rpc.Inflight

	// Guarded by the mutex of sessions.
	version   uint64 // of the state in memory
	record    []byte // the state as stored; may be nil, see Release
	refs      int
	touchedAt int // the tick of the last use or renewal
	cached    bool
	removed   bool           // no longer in memory: later requests use another StoredSession, or none
	used      uint32         // when the last use ended, see Sessions.uses
	older     *StoredSession // in the cache
	newer     *StoredSession // in the cache
	number    int            // of the standalone stream in the session; 0 if the server has no replicas
	newest    int            // the highest number that is known
	streams   chan struct{}  // closed when a newer standalone stream replaces this one, or the session ends
}

// Retain begins one more use of a session that is in use.
func (ss *StoredSession) Retain() {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	ss.refs++
}

// Key returns the session's key in the store, which begins with the principal.
func (ss *StoredSession) Key() string { return ss.key }

// Deleted reports whether this process has deleted the session.
func (ss *StoredSession) Deleted() bool {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	return ss.removed
}

// Touch renews the session's life.
func (ss *StoredSession) Touch(ctx context.Context) error {
	ss.sessions.mu.Lock()
	ttl, now := ss.ttl(), ss.sessions.ticks
	ss.sessions.mu.Unlock()
	_, err := ss.sessions.store.Touch(ctx, ss.key, ttl)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrNoSession
	case err != nil:
		return err
	}
	ss.sessions.mu.Lock()
	ss.touchedAt = max(ss.touchedAt, now)
	ss.sessions.mu.Unlock()
	return nil
}

// isRenewed records that the store has just renewed the session's life for a time, and reports whether that is enough.
// A time of 0 means that it has not.
func (ss *StoredSession) isRenewed(life time.Duration) bool {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	if life < ss.ttl() {
		return false
	}
	ss.touchedAt = ss.sessions.ticks
	return true
}

// ttl returns the session's life when idle. The caller holds the mutex of sessions.
func (ss *StoredSession) ttl() time.Duration {
	if ss.Ready {
		return ss.sessions.limits.Idle
	}
	return ss.sessions.limits.Uninitialized
}

// MarkReady records that the client has sent notifications/initialized. From then on the
// idle limit applies. The error is ErrNoSession or the store's.
func (ss *StoredSession) MarkReady(ctx context.Context) error {
	ss.sessions.mu.Lock()
	ready := ss.Ready
	ss.sessions.mu.Unlock()
	if ready {
		return nil
	}
	if err := ss.update(ctx, func(state *State) error { state.Ready = true; return nil }); err != nil {
		return err
	}
	ss.sessions.mu.Lock()
	ss.Ready = true
	ss.sessions.mu.Unlock()
	return nil
}

// Stream begins the session's standalone stream with a name and returns the notifications to deliver on it, see
// [Session.Notifications]. A session has one such stream, so a newer one closes the channel of an older one
// (2025-11-25, basic/transports, Multiple Connections: a message goes to one stream). The channel is closed at once if
// the server shuts down or the session has been deleted. The error is the store's, or the cause of ctx.
func (ss *StoredSession) Stream(ctx context.Context, name string) (replaced <-chan struct{},
	notifications *NotificationQueue, err error) {
	replaced, notifications, _, err = ss.stream(ctx, name, false)
	return replaced, notifications, err
}

// ErrOtherStream is the error of TakeOver for a stream that is not the newest standalone stream of the session, or has
// expired.
var ErrOtherStream = errors.New("the session has another standalone stream, or the stream has expired")

// TakeOver is Stream, except that it continues the newest standalone stream of the session, which another replica had.
// That replica hands over the notifications that it has queued. If it has ended, its queue is lost, and TakeOver queues
// a notification of each list and of each resource to which the client has subscribed.
func (ss *StoredSession) TakeOver(ctx context.Context, name string) (replaced <-chan struct{},
	notifications *NotificationQueue, err error) {
	if ss.sessions.Replicas == nil {
		return nil, nil, ErrOtherStream
	}
	replaced, notifications, before, err := ss.stream(ctx, name, true)
	if err != nil {
		return nil, nil, err
	}
	if changes := ss.server.Changes; changes != nil {
		changes.Replay(notifications.changes)
	}
	if before != ss.sessions.Replicas.ID() {
		if serves, err := ss.sessions.Replicas.Serves(ctx, before); err == nil && serves {
			return replaced, notifications, nil
		}
	}
	notifications.Resync()
	return replaced, notifications, nil
}

// stream implements Stream and TakeOver. See beginStream.
func (ss *StoredSession) stream(ctx context.Context, name string, takeOver bool) (replaced <-chan struct{},
	notifications *NotificationQueue, before string, err error) {
	u := &ss.subscriptions
	if err := u.serialize(ctx); err != nil {
		return nil, nil, "", err
	}
	defer u.unlock()
	number, before, err := ss.beginStream(ctx, name, takeOver)
	if err != nil {
		return nil, nil, "", err
	}
	item, err := ss.read(ctx, true)
	if err != nil {
		return nil, nil, "", err
	}
	if ss.sessions.Replicas != nil {
		defer ss.sessions.Replicas.Listening(ss.key)
	}
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	if ss.record != nil { // which may have changed meanwhile
		item.Value = ss.record
	}
	state, err := DecodeState(item.Value)
	if err != nil {
		return nil, nil, "", err
	}
	if ss.streams != nil {
		close(ss.streams)
	}
	ss.streams = make(chan struct{})
	replaced, notifications, ss.number = ss.streams, ss.openQueue(&state), number
	ss.setNewest(number)
	if ss.streams != nil && (ss.sessions.draining || ss.removed) {
		close(ss.streams)
		ss.streams = nil
	}
	return replaced, notifications, before, nil
}

// maxUpdates limits the attempts to write a session's state when other replicas write it concurrently.
const maxUpdates = 8

// update changes the session's state in the store. It returns ErrNoSession, the error of change, or the store's. If
// change returns errUnchanged, update writes nothing and returns nil. If change returns store.ErrConflict, or another
// replica has changed the state, update calls it again.
func (ss *StoredSession) update(ctx context.Context, change func(*State) error) error {
	for attempt := range maxUpdates {
		item, err := ss.read(ctx, attempt == 0)
		if err != nil {
			return err
		}
		switch err := ss.tryUpdate(ctx, item, change); {
		case errors.Is(err, errUnchanged):
			return nil
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	return fmt.Errorf("cannot write session: %w", store.ErrConflict)
}

// read returns the record: that in memory if the caller permits it and there is one, otherwise that
// of the store. The error is ErrNoSession or the store's.
func (ss *StoredSession) read(ctx context.Context, inMemory bool) (store.Item, error) {
	ss.sessions.mu.Lock()
	item := store.Item{Value: ss.record, Version: ss.version}
	ss.sessions.mu.Unlock()
	if inMemory && item.Value != nil {
		return item, nil
	}
	item, err := ss.sessions.store.Get(ctx, ss.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return item, ErrNoSession
	case err != nil:
		return item, fmt.Errorf("cannot read session: %w", err)
	}
	return item, nil
}

// tryUpdate changes the state unless it has changed since item was read.
func (ss *StoredSession) tryUpdate(ctx context.Context, item store.Item, change func(*State) error) error {
	state, err := DecodeState(item.Value)
	if err != nil {
		return err
	}
	if err := change(&state); err != nil {
		return err
	}
	ttl := ss.sessions.limits.Uninitialized
	if state.Ready {
		ttl = ss.sessions.limits.Idle
	}
	record := state.Encode()
	version, err := ss.sessions.store.Put(ctx, ss.key, record, store.PutOptions{TTL: ttl, IfVersion: item.Version})
	if err != nil {
		return fmt.Errorf("cannot write session: %w", err)
	}
	ss.setRecord(item.Version, store.Item{Value: record, Version: version}, &state)
	return nil
}

// ExpireSoon shortens the session's life in the store. Call it when the client does not answer: it may have lost its
// connection only, and come back. A session with requests in flight keeps its usual life, so that the client can fetch
// the responses (2025-11-25, basic/transports: a disconnect is not a cancellation).
func (ss *StoredSession) ExpireSoon(ctx context.Context, ttl time.Duration) {
	if ss.inflight.Len() > 0 {
		return
	}
	item, err := ss.sessions.store.Get(ctx, ss.key)
	if err != nil {
		return // the session has ended, or expires when idle
	}
	ss.sessions.mu.Lock()
	ttl = min(ttl, ss.ttl())
	ss.sessions.mu.Unlock()
	version, err := ss.sessions.store.Put(ctx, ss.key, item.Value, store.PutOptions{TTL: ttl, IfVersion: item.Version})
	if err == nil {
		ss.setRecord(item.Version, store.Item{Value: item.Value, Version: version}, nil)
	}
}

// setRecord keeps the record after a write. The state is nil if it is the same as before.
func (ss *StoredSession) setRecord(before uint64, now store.Item, state *State) {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	if ss.version != before { // the next Open reads the newer record
		return
	}
	ss.version, ss.record = now.Version, now.Value
	if state != nil {
		ss.subscriptions.restore(state)
	}
}
