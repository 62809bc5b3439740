package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// defaultLevel is the least severe level that a client is told of which has not
// chosen one: what the server sends then is its own choice (2025-11-25,
// server/utilities/logging).
const defaultLevel = mcp.LevelInfo

// level is the log level of a session. Safe for concurrent use.
type logLevel struct {
	chosen atomic.Pointer[mcp.LoggingLevel]
}

func (l *logLevel) get() mcp.LoggingLevel {
	if chosen := l.chosen.Load(); chosen != nil {
		return *chosen
	}
	return defaultLevel
}

// set chooses a level; the empty one is none.
func (l *logLevel) set(chosen mcp.LoggingLevel) {
	if chosen == "" {
		l.chosen.Store(nil)
		return
	}
	stays := chosen
	l.chosen.Store(&stays)
}

// maxUpdates bounds how often the state of a session is written anew because
// somebody else has changed it meanwhile.
const maxUpdates = 8

// setLevel chooses the session's log level, wherever the session is kept.
func (s *Session) setLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	if s.stored != nil {
		return s.stored.storeLevel(ctx, chosen)
	}
	s.level.set(chosen)
	return nil
}

// keepLevel chooses the session's log level here and in the store, where the next
// request finds it, on whichever replica.
func (l *StoredSession) storeLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	err := l.update(ctx, func(state *State) { state.LogLevel = chosen })
	if err == nil {
		l.level.set(chosen)
	}
	return err
}

// update changes the session's state in the store. The error is ErrNoSession, or
// the store's.
func (l *StoredSession) update(ctx context.Context, change func(*State)) error {
	for range maxUpdates {
		item, err := l.sessions.store.Get(ctx, l.key)
		if errors.Is(err, store.ErrNotFound) {
			return ErrNoSession
		}
		if err != nil {
			return fmt.Errorf("find session: %w", err)
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
			return fmt.Errorf("keep session: %w", err)
		}
	}
	return fmt.Errorf("keep session: %w", store.ErrConflict)
}
