package rpc

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Progress reports the progress of the call to the peer: done of total, with a text for people.
// A total of 0 or less is unknown. The text is omitted if it is empty, and for peers of
// 2024-11-05, which does not have it.
//
// Progress must increase, so a value that does not exceed the last one is not sent. If the peer
// has not asked for progress, nothing is sent, and the error is nil. Progress is safe for
// concurrent use.
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

func appendProgress(dst []byte, token jsonrpc.ID, done, total float64, text string, r mcp.Revision, meta []byte) []byte {
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
