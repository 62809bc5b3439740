package rpc

import (
	"context"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A call may send maxLogs log messages in each logWindow. What is beyond it is left
// out, and counted.
const (
	maxLogs   = 256
	logWindow = time.Second
)

// logTally counts the log messages of a call, under its mutex.
type logTally struct {
	since time.Time // when the window began
	sent  int       // in it
	lost  int       // not told of yet
}

// roll begins a new window when the last one is over.
func (t *logTally) roll() {
	if now := time.Now(); now.Sub(t.since) >= logWindow {
		t.since, t.sent = now, 0
	}
}

// Logs reports whether a log message of this level would reach the peer: whether it
// wants it, and can be told.
func (c *Call) Logs(level mcp.LoggingLevel) bool {
	if c.Stream == nil || !c.LogLevel.Enables(level) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.muted && c.over() == nil
}

// Log sends a log message to the peer, if it wants those of this level. Logger is a
// name, empty for none; data is any JSON value. Beyond 256 messages in a second they
// are left out, and the peer is told how many were. It returns ErrCallDone once the
// call has ended. Safe for concurrent use. (2026-07-28, server/utilities/logging.)
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data []byte) error {
	if !c.LogLevel.Enables(level) {
		return nil
	}
	c.mu.Lock()
	if c.logs == nil {
		c.logs = new(logTally)
	}
	late := c.logs.lost > 0
	c.mu.Unlock()
	if late {
		if err := c.sendLost(ctx, false); err != nil {
			return err
		}
	}
	return c.send(ctx, func(dst []byte) []byte {
		c.logs.roll()
		if c.logs.sent >= maxLogs {
			c.logs.lost++
			return nil
		}
		c.logs.sent++
		return appendLog(dst, level, logger, data)
	})
}

// reportLost tells of what was left out when nothing more will be sent.
func (c *Call) reportLost(ctx context.Context) {
	c.mu.Lock()
	late := c.logs != nil && c.logs.lost > 0
	c.mu.Unlock()
	if late {
		_ = c.sendLost(ctx, true)
	}
}

// sendLost tells how many messages were left out: once there is room for it again,
// or at last.
func (c *Call) sendLost(ctx context.Context, last bool) error {
	return c.send(ctx, func(dst []byte) []byte {
		c.logs.roll()
		if c.logs.lost == 0 || c.logs.sent >= maxLogs && !last {
			return nil
		}
		lost := c.logs.lost
		c.logs.lost = 0
		c.logs.sent++
		level := mcp.LevelWarning
		if !c.LogLevel.Enables(level) {
			level = c.LogLevel // whoever wants less has lost something of it
		}
		return appendLog(dst, level, "", []byte(`{"message":"log messages were left out: too many at a time","count":`+strconv.Itoa(lost)+`}`))
	})
}

func appendLog(dst []byte, level mcp.LoggingLevel, logger string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotificationMessage+`","params":{"level":"`...)
	dst = append(append(dst, level...), '"') // one of those we know
	if logger != "" {
		dst = jsonrpc.AppendString(append(dst, `,"logger":`...), logger)
	}
	dst = append(append(append(dst, `,"data":`...), data...), "}}"...)
	oneLine(dst)
	return dst
}
