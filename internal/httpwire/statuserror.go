package httpwire

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/internal/rpc"
)

// statusError returns the error for a response whose status is not a success.
func (o *Options) statusError(resp *http.Response) *call.StatusError {
	text := http.StatusText(resp.StatusCode)
	if target := redirect.Target(resp); target != "" {
		text += " to " + target
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized && o.Header.Get("Authorization") != "":
		text += ": the server rejects the header Authorization of the request"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		text += o.givenHeaders()
	}
	return &call.StatusError{Status: resp.StatusCode, Text: text, RetryAfter: retryAfter(resp.Header)}
}

// givenHeaders names the headers of the configuration, which usually have credentials, for errors of requests that the
// server does not authorize. It is empty if there are none.
func (o *Options) givenHeaders() string {
	names := slices.Sorted(maps.Keys(o.Header))
	switch len(names) {
	case 0:
		return ""
	case 1:
		return ", although the request has the header " + names[0]
	}
	return ", although the request has the headers " + strings.Join(names, ", ")
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
