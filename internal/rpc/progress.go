package rpc

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Progress tells the peer how far the call is: done of total, and a sentence for
// people. A total of zero or less is unknown; an empty text is left out, as it is
// for peers of 2024-11-05, which cannot read one.
//
// The protocol wants progress to grow: a value that does not exceed the last one
// is not sent. Nothing is sent, and nil returned, if the peer asked for none.
// Safe for concurrent use.
func (c *Call) Progress(ctx context.Context, done, total float64, text string) error {
	if math.IsNaN(done) || math.IsInf(done, 0) {
		return errors.New("progress must be a finite number")
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

// appendNumber writes whole numbers without an exponent, as people do.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
