//lint:file-ignore SA1019 deprecated features must still work

package host

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxLateLogs is the maximum number of late log messages in one second. Others are dropped.
const maxLateLogs = 256

// lateLogs forwards the log messages that a server sends when no call is in flight, such as after the result of a call,
// to the session that the client of the server belongs to. It is safe for concurrent use.
type lateLogs struct {
	mu       sync.Mutex
	notifier rpc.SessionNotifier // of the session; may be nil
	level    mcp.LoggingLevel    // of the session
	second   int64
	sent     int // in second
}

// belongTo sets the session to that of a call.
func (l *lateLogs) belongTo(c *rpc.Call) {
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notifier, l.level = c.SessionNotifier, c.LogLevel
}

// receive makes a client of the server pass late messages to l.
func (l *lateLogs) receive(server string, d *client.Dialer) {
	next := d.OnLog
	d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) {
		if rpc.From(ctx) != nil {
			next(ctx, message)
			return
		}
		if to := l.receiver(message.Level); to != nil {
			name, data := forwardedLog(server, &message)
			to.Notify(rpc.AppendLog(nil, message.Level, name, data))
		}
	}
}

// receiver returns the session if it wants a message of level.
func (l *lateLogs) receiver(level mcp.LoggingLevel) rpc.SessionNotifier {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notifier == nil || !l.level.Enables(level) {
		return nil
	}
	if now := time.Now().Unix(); now != l.second {
		l.second, l.sent = now, 0
	}
	if l.sent == maxLateLogs {
		return nil
	}
	l.sent++
	return l.notifier
}

// forwardsLogs reports whether clients receive the log messages of servers.
func (h *Host) forwardsLogs() bool { return h.Forward && h.OnLog == nil && h.Dialer.OnLog == nil }
