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
	sessionRef
	key      string // in the store
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
func (ss *StoredSession) retain() {
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
	return ss.sessions.live[ss.sessionRef] != ss
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

// Stream begins the session's standalone stream and returns the notifications to deliver on
// it, see [Session.Notifications]. A session has one such stream, so a newer one closes the
// channel of an older one (2025-11-25, basic/transports, Multiple Connections: a message
// goes to one stream). The channel is closed at once if the server shuts down or the session
// has been deleted.
func (ss *StoredSession) Stream() (replaced <-chan struct{}, notifications *NotificationQueue) {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	if ss.streams != nil {
		close(ss.streams)
	}
	ss.streams = make(chan struct{})
	replaced, notifications = ss.streams, ss.Notifications()
	if ss.sessions.draining || ss.sessions.live[ss.sessionRef] != ss {
		close(ss.streams)
		ss.streams = nil
	}
	return replaced, notifications
}

// maxUpdates limits the attempts to write a session's state when other replicas write it
// concurrently.
const maxUpdates = 8

// errUnchanged makes update keep the state.
var errUnchanged = errors.New("state is unchanged")

// update changes the session's state in the store. The error is ErrNoSession, that of change,
// or the store's. If change returns errUnchanged, update writes nothing and returns nil.
func (ss *StoredSession) update(ctx context.Context, change func(*State) error) error {
	for range maxUpdates {
		item, err := ss.sessions.store.Get(ctx, ss.key)
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
		switch err := change(&state); {
		case errors.Is(err, errUnchanged):
			return nil
		case err != nil:
			return err
		}
		ttl := ss.sessions.limits.Uninitialized
		if state.Ready {
			ttl = ss.sessions.limits.Idle
		}
		version, err := ss.sessions.store.Put(ctx, ss.key, state.Encode(), store.PutOptions{TTL: ttl, IfVersion: item.Version})
		if err == nil {
			ss.setVersion(item.Version, version)
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
		ss.setVersion(item.Version, version)
	}
}

// setVersion records the version of the state after a write.
func (ss *StoredSession) setVersion(before, now uint64) {
	ss.sessions.mu.Lock()
	defer ss.sessions.mu.Unlock()
	if ss.version == before { // otherwise the next Open reads the newer state
		ss.version = now
	}
}
