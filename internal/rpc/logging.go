package rpc

import (
	"context"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A call may send maxLogs log messages in each logWindow. Further ones are dropped and counted.
const (
	maxLogs   = 256
	logWindow = time.Second
)

// logCounter counts the log messages of a call. It is guarded by the call's mutex.
type logCounter struct {
	since   time.Time // when the window began
	sent    int       // in the window
	dropped int       // since the last report
}

// advance begins a new window when the last one has ended.
func (l *logCounter) advance() {
	if now := time.Now(); now.Sub(l.since) >= logWindow {
		l.since, l.sent = now, 0
	}
}

// Logs reports whether Log sends messages of this level.
func (c *Call) Logs(level mcp.LoggingLevel) bool {
	if c.Stream == nil || !c.LogLevel.Enables(level) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.muted && c.ended() == nil
}

// Log sends a log message to the peer, if the peer wants messages of this level. Logger is the
// name of the logger, or ""; data is any JSON value. Log drops messages above 256 in one
// second, and reports their number to the peer. It returns call.ErrCallDone once the call has
// ended. It is safe for concurrent use (2026-07-28, server/utilities/logging).
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data []byte) error {
	if !c.LogLevel.Enables(level) {
		return nil
	}
	c.mu.Lock()
	if c.logs == nil {
		c.logs = new(logCounter)
	}
	dropped := c.logs.dropped > 0
	c.mu.Unlock()
	if dropped {
		if err := c.reportDropped(ctx, false); err != nil {
			return err
		}
	}
	return c.send(ctx, func(dst []byte) []byte {
		c.logs.advance()
		if c.logs.sent >= maxLogs {
			c.logs.dropped++
			return nil
		}
		c.logs.sent++
		return AppendLog(dst, level, logger, data)
	})
}

// flushLogs reports the dropped messages at the end of the call.
func (c *Call) flushLogs(ctx context.Context) {
	c.mu.Lock()
	dropped := c.logs != nil && c.logs.dropped > 0
	c.mu.Unlock()
	if dropped {
		_ = c.reportDropped(ctx, true)
	}
}

// reportDropped sends the number of dropped messages, within the limit unless it is the last
// message of the call.
func (c *Call) reportDropped(ctx context.Context, last bool) error {
	return c.send(ctx, func(dst []byte) []byte {
		c.logs.advance()
		if c.logs.dropped == 0 || c.logs.sent >= maxLogs && !last {
			return nil
		}
		dropped := c.logs.dropped
		c.logs.dropped = 0
		c.logs.sent++
		level := mcp.LevelWarning
		if !c.LogLevel.Enables(level) {
			level = c.LogLevel // the dropped messages are of this level or above
		}
		return AppendLog(dst, level, "", []byte(`{"message":"log messages dropped: too many in one second","count":`+strconv.Itoa(dropped)+`}`))
	})
}

// AppendLog appends a log message to dst; see [Call.Log].
func AppendLog(dst []byte, level mcp.LoggingLevel, logger string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotificationMessage+`","params":{"level":"`...)
	dst = append(append(dst, level...), '"') // levels need no escapes
	if logger != "" {
		dst = jsonrpc.AppendString(append(dst, `,"logger":`...), logger)
	}
	dst = append(append(append(dst, `,"data":`...), data...), "}}"...)
	jsonscan.ReplaceLineBreaks(dst)
	return dst
}
