package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// SetLogLevel asks the server for log messages of level and above; Dialer.OnLog receives
// them. In a session it sends logging/setLevel, now and in each later session, and returns a
// *jsonrpc.Error if the server does not support logging. In 2026-07-28 it sends nothing:
// each later request carries the level.
//
// Deprecated: 2026-07-28 deprecates logging by protocol. Servers write logs to standard
// error; see transport.CommandOptions.
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	if !level.Known() {
		return fmt.Errorf("logging/setLevel: the level must be one of %q, not %.32q", mcp.LoggingLevels(), string(level))
	}
	if c.Revision().Modern() {
		c.logLevel.Store(&level)
		return nil
	}
	_, err := c.request(ctx, func(l *link) *rpc.Request {
		if l.revision.Modern() { // the server was upgraded, and the client has reconnected
			return &rpc.Request{Method: mcp.MethodDiscover, Timeout: c.dialer.Timeouts.Read, MaxTimeout: c.dialer.Timeouts.Max}
		}
		return c.setLevel(level)
	}, true)
	if err == nil {
		c.logLevel.Store(&level)
	}
	return err
}

func (c *Client) setLevel(level mcp.LoggingLevel) *rpc.Request {
	params := []byte(`{"level":"` + string(level) + `"}`) // a known level needs no escapes
	return &rpc.Request{Method: mcp.MethodSetLevel, Params: params, Timeout: c.dialer.Timeouts.Read, MaxTimeout: c.dialer.Timeouts.Max}
}

// restoreLogLevel sets the chosen level in a new session.
func (c *Client) restoreLogLevel(ctx context.Context, l *link) {
	level := c.logLevel.Load()
	if level == nil || l.revision.Modern() {
		return
	}
	if _, err := l.call(ctx, c.setLevel(*level)); err != nil {
		c.dialer.Logger.Warn("cannot restore the log level", "server", c.target.String(), "error", err)
	}
}

// addLogLevel adds the chosen level to a request of 2026-07-28 (server/utilities/logging). A
// subscription carries no log messages.
func (c *Client) addLogLevel(l *link, req *rpc.Request) {
	level := c.logLevel.Load()
	if level == nil || !l.revision.Modern() || req.Method == mcp.MethodListen {
		return
	}
	meta := make(map[string]json.RawMessage, len(req.Meta)+1)
	maps.Copy(meta, req.Meta) // the caller owns req.Meta
	meta[mcp.MetaLogLevel] = json.RawMessage(`"` + string(*level) + `"`)
	req.Meta = meta
}
