package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// SetLogLevel asks the server for its log messages from a level on; Dialer.OnLog
// takes them. On a session the server is told at once, and again whenever a new
// session begins; in 2026-07-28 each later request says so, and there is nothing that
// could fail. It returns what [Client.Ping] does, and a *jsonrpc.Error from a server
// that does not log.
//
// Deprecated: 2026-07-28 deprecates logging by protocol; servers log to standard
// error, see transport.CommandOptions.
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	if !level.Known() {
		return fmt.Errorf("logging/setLevel: %.32q is no log level: use one of %q", string(level), mcp.LoggingLevels())
	}
	if c.Revision().Modern() {
		c.logLevel.Store(&level)
		return nil
	}
	_, err := c.request(ctx, func(l *link) *rpc.Request {
		if l.revision.Modern() { // it has been upgraded since
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
	timeout, most := c.timeouts(c.dialer.Timeouts.Read)
	params, _ := json.Marshal(mcp.SetLevelParams{Level: level}) // one of those we know
	return &rpc.Request{Method: mcp.MethodSetLevel, Params: params, Timeout: timeout, MaxTimeout: most}
}

// restoreLogLevel tells a new session which level was chosen for the ones before.
func (c *Client) restoreLogLevel(ctx context.Context, l *link) {
	level := c.logLevel.Load()
	if level == nil || l.revision.Modern() {
		return
	}
	if _, err := l.call(ctx, c.setLevel(*level)); err != nil {
		c.dialer.Logger.Warn("the log level of the session before could not be set again", "server", c.target.String(), "error", err)
	}
}

// askForLogs has a request ask for log messages, where requests do (2026-07-28,
// server/utilities/logging). A stream of changes carries none.
func (c *Client) askForLogs(l *link, req *rpc.Request) {
	level := c.logLevel.Load()
	if level == nil || !l.revision.Modern() || req.Method == mcp.MethodListen {
		return
	}
	meta := make(map[string]json.RawMessage, len(req.Meta)+1)
	maps.Copy(meta, req.Meta) // which is the caller's
	meta[mcp.MetaLogLevel] = json.RawMessage(`"` + string(*level) + `"`)
	req.Meta = meta
}
