package rpc

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Notify sends a notification on the call's stream. Params must be a JSON object, or nil. It returns call.ErrCallDone
// once the call has ended, and nil without sending anything if the peer cannot receive notifications for the call.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	return c.send(ctx, func(dst []byte) []byte {
		dst = jsonrpc.AppendNotification(dst, method, params)
		jsonscan.ReplaceLineBreaks(dst)
		return dst
	})
}

// Send sends one message on the call's stream.
func (c *Call) Send(ctx context.Context, msg []byte) error {
	if c.Stream == nil {
		return ErrCannotAsk
	}
	return c.send(ctx, func([]byte) []byte { return msg })
}

// send encodes and writes one message. Messages arrive in the order in which they were sent. If
// encode returns nothing, nothing is sent. It runs with mu held.
func (c *Call) send(ctx context.Context, encode func(dst []byte) []byte) error {
	c.mu.Lock()
	err := c.ended()
	c.mu.Unlock()
	if err != nil || c.Stream == nil {
		return err
	}
	if err := c.lockStream(ctx); err != nil {
		return err
	}
	defer c.unlockStream()
	c.mu.Lock()
	var msg []byte
	ended := c.ended()
	if ended == nil {
		msg = encode(make([]byte, 0, 160))
	}
	if len(msg) > 0 {
		if c.made++; c.rounds != nil && c.rounds.muted > 0 {
			c.rounds.muted--
			msg = nil
		}
	}
	c.mu.Unlock()
	if filters := c.Filters(); len(filters) > 0 && len(msg) > 0 {
		msg = filter(filters, msg)
	}
	if len(msg) == 0 {
		return ended
	}
	return c.Stream.Write(ctx, msg)
}

// filter passes an encoded message through the middleware, if it is a notification. It returns nil if middleware has
// dropped it.
func filter(filters []func(*call.Notification) bool, msg []byte) []byte {
	m, err := jsonrpc.Parse(msg, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Notification {
		return msg
	}
	switch deliver, changed := Filter(filters, &m); {
	case !deliver:
		return nil
	case !changed:
		return msg
	}
	dst := jsonrpc.AppendNotification(nil, m.Method, m.Raw)
	jsonscan.ReplaceLineBreaks(dst)
	return dst
}

// Filter passes a notification through the functions of call.OnNotification, those of the innermost middleware first.
// It reports whether they deliver it, and whether they have changed m.
func Filter(filters []func(*call.Notification) bool, m *jsonrpc.Message) (deliver, changed bool) {
	n := call.Notification{Method: m.Method, Params: m.Raw}
	for _, f := range slices.Backward(filters) {
		if !f(&n) {
			return false, false
		}
	}
	if bytes.Equal(n.Params, m.Raw) {
		return true, false
	}
	if n.Params != nil && (n.Params[0] != '{' || jsonrpc.Check(n.Params, jsonrpc.Limits{}) != nil) {
		return false, false
	}
	m.Raw, m.Params = n.Params, *jsonrpc.MembersOf(n.Params)
	return true, true
}

// lockStream waits until no other message is being written to the stream.
func (c *Call) lockStream(ctx context.Context) error {
	c.mu.Lock()
	if c.writing == nil {
		c.writing = make(chan struct{}, 1)
	}
	c.mu.Unlock()
	select {
	case c.writing <- struct{}{}: // without a wait, which costs more
		return nil
	default:
	}
	select {
	case c.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Call) unlockStream() { <-c.writing }

// Finish ends the call: nothing more can be sent for it. It reports the log messages that were dropped, and waits for a
// message that is being written, so that the response comes last.
func (c *Call) Finish() {
	c.mu.Lock()
	if c.logs != nil && c.logs.dropped > 0 {
		c.mu.Unlock()
		_ = c.reportDropped(c.Context(), true)
		c.mu.Lock()
	}
	c.done = true
	writing := c.writing
	c.mu.Unlock()
	if writing != nil {
		writing <- struct{}{}
		<-writing
	}
}

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
	return c.ended() == nil
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

// reportDropped sends the number of dropped messages, within the limit unless it is the last message of the call.
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
		return AppendLog(dst, level, "",
			[]byte(`{"message":"log messages dropped: too many in one second","count":`+strconv.Itoa(dropped)+`}`))
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

// Progress reports the progress of the call to the peer: done of total, with a text for people. A total of 0 or less is
// unknown. The text is omitted if it is empty, and for peers of 2024-11-05, which does not have it.
//
// Progress must increase, so a value that does not exceed the last one is not sent. If the peer has not asked for
// progress, nothing is sent, and the error is nil. Progress is safe for concurrent use.
func (c *Call) Progress(ctx context.Context, done, total float64, text string) error {
	if math.IsNaN(done) || math.IsInf(done, 0) {
		return errors.New("progress must be a finite number")
	}
	c.mu.Lock()
	report, err := c.asTask().Progress, c.ended()
	if report != nil && err == nil && !c.increase(done) {
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	if report != nil {
		if err != nil {
			return err
		}
		return report(ctx, done, total, text)
	}
	return c.send(ctx, func(dst []byte) []byte {
		if c.ProgressToken.IsZero() || !c.increase(done) {
			return nil
		}
		return appendProgress(dst, c.ProgressToken, done, total, text, c.Revision(), nil)
	})
}

// increase records the progress and reports whether it has increased. It is called with mu held.
func (c *Call) increase(done float64) bool {
	if c.reported && done <= c.last {
		return false
	}
	c.reported, c.last = true, done
	return true
}

// ProgressOfTask returns the notification of the progress of a task of 2025-11-25, whose request had
// a progress token. Meta is the _meta of the notification.
func ProgressOfTask(token jsonrpc.ID, done, total float64, text string, meta []byte) []byte {
	return appendProgress(nil, token, done, total, text, mcp.V20251125, meta)
}

func appendProgress(dst []byte, token jsonrpc.ID, done, total float64, text string, r mcp.Revision,
	meta []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotificationProgress+`","params":{"progressToken":`...)
	dst = token.Append(dst)
	dst = append(dst, `,"progress":`...)
	dst = appendNumber(dst, done)
	if total > 0 && !math.IsInf(total, 0) {
		dst = append(dst, `,"total":`...)
		dst = appendNumber(dst, total)
	}
	if text != "" && r >= mcp.V20250326 {
		dst = append(dst, `,"message":`...)
		dst = jsonrpc.AppendString(dst, text)
	}
	if meta != nil {
		dst = append(append(dst, `,"_meta":`...), meta...)
	}
	return append(dst, "}}"...)
}

// appendNumber appends a number, an integer without an exponent.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
