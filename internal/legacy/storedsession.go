package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// StoredSession is a stored session in memory: while it is in use, and as long as the cache
// keeps it.
type StoredSession struct {
	*Session
	ID       string
	key      string
	sessions *Sessions

	inflight *rpc.Inflight

	// Guarded by the mutex of sessions.
	version   uint64 // of the state in memory
	refs      int
	touchedAt int // the tick of the last use or renewal
	cached    bool
	older     *StoredSession // in the cache
	newer     *StoredSession // in the cache
	streams   chan struct{}  // closed when a newer standalone stream replaces this one, or the session ends
}

// retain begins one more use of a session that is in use.
func (l *StoredSession) retain() {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	l.refs++
}

// Key returns the session's key in the store, which begins with the principal.
func (l *StoredSession) Key() string { return l.key }

// Touch renews the session's life.
func (l *StoredSession) Touch(ctx context.Context) error {
	l.sessions.mu.Lock()
	ttl := l.ttl()
	l.touchedAt = l.sessions.ticks
	l.sessions.mu.Unlock()
	_, err := l.sessions.store.Touch(ctx, l.key, ttl)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNoSession
	}
	return err
}

// ttl returns the session's life when idle. The caller holds the mutex of sessions.
func (l *StoredSession) ttl() time.Duration {
	if l.Ready {
		return l.sessions.limits.Idle
	}
	return l.sessions.limits.Uninitialized
}

// MarkReady records that the client has sent notifications/initialized. From then on the
// idle limit applies. The error is ErrNoSession or the store's.
func (l *StoredSession) MarkReady(ctx context.Context) error {
	l.sessions.mu.Lock()
	ready := l.Ready
	l.sessions.mu.Unlock()
	if ready {
		return nil
	}
	if err := l.update(ctx, func(state *State) { state.Ready = true }); err != nil {
		return err
	}
	l.sessions.mu.Lock()
	l.Ready = true
	l.sessions.mu.Unlock()
	return nil
}

// Stream begins the session's standalone stream. There is one per session, so the taken
// channel of an older one is closed (2025-11-25, basic/transports, Multiple Connections: a
// message goes to one stream).
//
// The channel is closed at once if the server shuts down or the session has been deleted.
// Changes are the notifications to deliver, see [Session.Notifications].
func (l *StoredSession) Stream() (taken <-chan struct{}, changes *NotificationQueue) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.streams != nil {
		close(l.streams)
	}
	l.streams = make(chan struct{})
	taken, changes = l.streams, l.Notifications()
	if l.sessions.draining || l.sessions.live[l.key] != l {
		close(l.streams)
		l.streams = nil
	}
	return taken, changes
}

// maxUpdates limits the attempts to write a session's state when other replicas write it
// concurrently.
const maxUpdates = 8

// update changes the session's state in the store. The error is ErrNoSession or the
// store's.
func (l *StoredSession) update(ctx context.Context, change func(*State)) error {
	for range maxUpdates {
		item, err := l.sessions.store.Get(ctx, l.key)
		if errors.Is(err, store.ErrNotFound) {
			return ErrNoSession
		}
		if err != nil {
			return fmt.Errorf("cannot read session: %w", err)
		}
		state, err := DecodeState(item.Value)
		if err != nil {
			return err
		}
		change(&state)
		ttl := l.sessions.limits.Uninitialized
		if state.Ready {
			ttl = l.sessions.limits.Idle
		}
		version, err := l.sessions.store.Put(ctx, l.key, state.Encode(), store.PutOptions{TTL: ttl, IfVersion: item.Version})
		if err == nil {
			l.setVersion(item.Version, version)
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("cannot write session: %w", err)
		}
	}
	return fmt.Errorf("cannot write session: %w", store.ErrConflict)
}

// ExpireSoon shortens the session's life in the store. Call it when the client does not
// answer: it may have lost its connection only, and come back. A session with requests in
// flight keeps its usual life, so that the client can fetch the responses (2025-11-25,
// basic/transports: a disconnect is not a cancellation).
func (l *StoredSession) ExpireSoon(ctx context.Context, while time.Duration) {
	if l.inflight.Len() > 0 {
		return
	}
	item, err := l.sessions.store.Get(ctx, l.key)
	if err != nil {
		return // the session has ended, or expires when idle
	}
	l.sessions.mu.Lock()
	while = min(while, l.ttl())
	l.sessions.mu.Unlock()
	version, err := l.sessions.store.Put(ctx, l.key, item.Value, store.PutOptions{TTL: while, IfVersion: item.Version})
	if err == nil {
		l.setVersion(item.Version, version)
	}
}

// setVersion records the version of the state after a write.
func (l *StoredSession) setVersion(before, now uint64) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.version == before { // otherwise the next Open reads the newer state
		l.version = now
	}
}
