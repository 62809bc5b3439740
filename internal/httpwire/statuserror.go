package httpwire

import (
	"net/http"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/call"
)

// statusError returns the error for a response whose status is not a success.
func statusError(resp *http.Response) *call.StatusError {
	return &call.StatusError{
		Status:     resp.StatusCode,
		Text:       http.StatusText(resp.StatusCode),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
}

// retryAfter returns the delay of a Retry-After header in seconds (RFC 9110, section 10.2.3). For other values,
// dates included, it returns 0.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 1<<20)) * time.Second
}
