package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// SetLogLevel asks the server for log messages of level and above; Dialer.OnLog receives
// them. In a session it sends logging/setLevel, now and in each later session, and returns a
// *jsonrpc.Error if the server does not support logging. In 2026-07-28 it sends nothing:
// each later request carries the level.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
// See transport.CommandOptions.
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	if !level.Known() {
		return fmt.Errorf("logging/setLevel: the level must be one of %q, not %.32q", mcp.LoggingLevels(),
			string(level))
	}
	if c.Revision().Modern() {
		c.logLevel.Store(&level)
		return nil
	}
	_, err := c.request(ctx, func(l *link) *outbound.Request {
		if l.revision.Modern() { // the server was upgraded, and the client has reconnected
			return &outbound.Request{Method: mcp.MethodDiscover, Timeout: c.dialer.Timeouts.Read,
				MaxTimeout: c.dialer.Timeouts.Max}
		}
		l.logs.set(level)
		return c.setLevel(level)
	}, true)
	if err == nil {
		c.logLevel.Store(&level)
	}
	return err
}

func (c *Client) setLevel(level mcp.LoggingLevel) *outbound.Request {
	params := []byte(`{"level":"` + string(level) + `"}`) // a known level needs no escapes
	return &outbound.Request{Method: mcp.MethodSetLevel, Params: params, Timeout: c.dialer.Timeouts.Read,
		MaxTimeout: c.dialer.Timeouts.Max}
}

// restoreLogLevel sets the chosen level in a new session.
func (c *Client) restoreLogLevel(ctx context.Context, l *link) {
	level := c.logLevel.Load()
	if level == nil || l.revision.Modern() {
		return
	}
	l.logs.set(*level)
	if _, err := l.call(ctx, c.setLevel(*level)); err != nil {
		c.dialer.Logger.Warn("cannot restore the log level", "server", c.target.String(), "error", err)
	}
}

// applyLogLevel adds the level to a request of 2026-07-28 (server/utilities/logging), or, in a session,
// raises the level of the session before the request. A subscription carries no log messages.
func (c *Client) applyLogLevel(ctx context.Context, l *link, req *outbound.Request) {
	switch {
	case !l.revision.Modern() && req.LogLevel != "":
		c.raiseLogLevel(ctx, l, req.LogLevel)
		return
	case !l.revision.Modern(), req.Method == mcp.MethodListen:
		return
	}
	level := req.LogLevel
	if level == "" {
		chosen := c.logLevel.Load()
		if chosen == nil {
			return
		}
		level = *chosen
	}
	meta := make(map[string]json.RawMessage, len(req.Meta)+1)
	maps.Copy(meta, req.Meta) // the caller owns req.Meta
	meta[mcp.MetaLogLevel] = json.RawMessage(`"` + string(level) + `"`)
	req.Meta = meta
}

// raiseLogLevel makes a session send messages of the level, too. If that fails, the request receives
// fewer log messages, and the next request tries again.
func (c *Client) raiseLogLevel(ctx context.Context, l *link, level mcp.LoggingLevel) {
	if l.server.Capabilities.Logging == nil {
		return
	}
	before, raised := l.logs.raise(level)
	if !raised {
		return
	}
	if _, err := l.call(ctx, c.setLevel(level)); err != nil {
		l.logs.restore(level, before)
		c.dialer.Logger.Debug("cannot set the log level", "server", c.target.String(), "error", err)
	}
}

// sessionLevel is the log level of a session. It is safe for concurrent use.
type sessionLevel struct {
	mu    sync.Mutex
	level mcp.LoggingLevel // empty: the server chooses
}

// raise sets the level unless the current one is at least as detailed. It returns the previous level, and
// whether it changed it.
func (s *sessionLevel) raise(level mcp.LoggingLevel) (before mcp.LoggingLevel, raised bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level.Enables(level) {
		return s.level, false
	}
	before, s.level = s.level, level
	return before, true
}

// restore undoes raise, unless another level was set in the meantime.
func (s *sessionLevel) restore(raised, before mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level == raised {
		s.level = before
	}
}

func (s *sessionLevel) set(level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}
