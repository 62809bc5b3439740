package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/redirect"
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

// givenHeaders names the headers of the configuration, which usually carry credentials, for the error of a request
// that the server does not authorize. It returns "" if there are none.
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
// outbound.MaxRetryAfter (RFC 9110, section 10.2.3). It returns 0 if the header is missing or
// malformed.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(outbound.MaxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date")) // compare with the server's clock, which may differ
	if err != nil {
		now = time.Now()
	}
	return min(max(until.Sub(now), 0), outbound.MaxRetryAfter)
}

// requestError returns the error of a request whose response has the status and the JSON-RPC error of e. With some
// statuses, the server reports what is wrong with the request, and the JSON-RPC error comes from the server. With
// other statuses, the body may come from a proxy, so the status remains the error.
func requestError(isModern bool, e *call.StatusError) error {
	switch {
	case e.Err == nil:
	case isModern && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound):
		return &outbound.Rejected{Err: e.Err}
	case !isModern && e.Status == http.StatusBadRequest:
		return e.Err
	}
	return e
}

// Rejection is the error of a request in a session, or of initialize, that was answered with status 400, or with 409 or
// 410 and a text about the session. The server may have lost the session, or reject the revision. A handler may be the
// source of the status and the text, so the client asks with a ping whether the session is lost.
type Rejection struct {
	error               // a *call.StatusError or, if the body contains one, a *jsonrpc.Error
	Body         string // the beginning of the body
	NamesSession bool   // Body mentions a session, perhaps the session of the connection
}

// Unwrap returns the error.
func (r *Rejection) Unwrap() error { return r.error }

// Is reports a match with outbound.ErrUnserved if Body mentions a session: a server that has lost the session
// has not acted on the request.
func (r *Rejection) Is(target error) bool { return target == outbound.ErrUnserved && r.NamesSession }

// Limits for reading the body of an error response.
const (
	maxErrorBody     = 64 << 10
	maxReason        = 1 << 10 // bytes of a text that gives a reason
	errorBodyTimeout = 2 * time.Second
)

// failureOf reads the body of an error response.
func (o *Options) failureOf(resp *http.Response) []byte {
	timer := time.AfterFunc(errorBodyTimeout, func() { resp.Body.Close() })
	defer timer.Stop()
	body, err := httpcodec.AppendBody(nil, resp.Body, resp.ContentLength, maxErrorBody, httpcodec.MaxInitialRead)
	if err != nil {
		return nil
	}
	o.trace(false, body)
	return body
}

// namesLostSession reports whether a response says that the server does not know the session of a request. The status
// for this is 404 (2025-11-25, basic/transports, Session Management). Servers that respond with 400, 409 or 410 name
// the session, or that it is not initialized, in a short text. An HTML page comes from a proxy.
func namesLostSession(resp *http.Response, body []byte) bool {
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusConflict, http.StatusGone:
	default:
		return false
	}
	if len(body) > maxReason || mediaType(resp.Header) == "text/html" {
		return false
	}
	text := strings.ToLower(string(body))
	return strings.Contains(text, "session") || strings.Contains(text, "not initialized")
}

// responseError returns the error for a response that broke off with err.
func responseError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*codingError)):
		return fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
	case errors.Is(err, httpcodec.ErrEventTooLarge), errors.Is(err, httpcodec.ErrBodyTooLarge):
		return fmt.Errorf("%w: %w: %s", call.ErrInvalidResponse, err, outbound.TooLargeAdvice)
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	case errors.Is(err, call.ErrConnectionLost): // already wrapped
		return err
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
}
