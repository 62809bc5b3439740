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
	if c.OnProgress != nil {
		c.mu.Lock()
		err := c.ended()
		c.mu.Unlock()
		if err != nil {
			return err
		}
		return c.OnProgress(ctx, done, total, text)
	}
	return c.send(ctx, func(dst []byte) []byte {
		if c.ProgressToken.IsZero() || c.reported && done <= c.last {
			return nil
		}
		c.reported, c.last = true, done
		dst = append(dst, `{"jsonrpc":"2.0","method":"`+mcp.NotificationProgress+`","params":{"progressToken":`...)
		dst = c.ProgressToken.Append(dst)
		dst = append(dst, `,"progress":`...)
		dst = appendNumber(dst, done)
		if total > 0 && !math.IsInf(total, 0) {
			dst = append(dst, `,"total":`...)
			dst = appendNumber(dst, total)
		}
		if text != "" && c.Revision() >= mcp.V20250326 {
			dst = append(dst, `,"message":`...)
			dst = jsonrpc.AppendString(dst, text)
		}
		return append(dst, "}}"...)
	})
}

// appendNumber appends a number, an integer without an exponent.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
