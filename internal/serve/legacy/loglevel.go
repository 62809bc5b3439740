package legacy

import (
	"context"
	"sync/atomic"

	"github.com/parley-mcp/parley/mcp"
)

// defaultLevel is the least severe level that a client receives if it has not set one. The
// server may choose it (2025-11-25, server/utilities/logging).
const defaultLevel = mcp.LevelInfo

// logLevel is the log level of a session. It is safe for concurrent use.
type logLevel struct {
	chosen atomic.Pointer[mcp.LoggingLevel]
}

func (ss *logLevel) get() mcp.LoggingLevel {
	if chosen := ss.chosen.Load(); chosen != nil {
		return *chosen
	}
	return defaultLevel
}

// set sets the level. The empty level is the default.
func (ss *logLevel) set(chosen mcp.LoggingLevel) {
	if chosen == "" {
		ss.chosen.Store(nil)
		return
	}
	stays := chosen
	ss.chosen.Store(&stays)
}

// setLevel sets the session's log level, and stores it if the session is stored.
func (s *Session) setLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	if s.stored != nil {
		return s.stored.storeLevel(ctx, chosen)
	}
	s.level.set(chosen)
	return nil
}

// storeLevel sets the session's log level in the store, where every replica finds it, and
// here.
func (ss *StoredSession) storeLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	err := ss.update(ctx, func(state *State) error { state.LogLevel = chosen; return nil })
	if err == nil {
		ss.level.set(chosen)
	}
	return err
}
