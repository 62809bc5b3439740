package httpwire

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// statusError returns the error for a response whose status is not a success.
func statusError(resp *http.Response) *call.StatusError {
	return &call.StatusError{
		Status:     resp.StatusCode,
		Text:       http.StatusText(resp.StatusCode),
		RetryAfter: retryAfter(resp.Header),
	}
}

// retryAfter returns the wait of the Retry-After header, in seconds or until a date, up to
// rpc.MaxRetryAfter (RFC 9110, section 10.2.3). It returns 0 for another value and for none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(rpc.MaxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date")) // the clocks may differ
	if err != nil {
		now = time.Now()
	}
	return min(max(until.Sub(now), 0), rpc.MaxRetryAfter)
}
