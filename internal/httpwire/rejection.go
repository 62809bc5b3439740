package httpwire

import (
	"net/http"
	"strings"
	"time"
)

// Rejection is the error of a request of a session, or of initialize, that was answered with status 400, or with 409 or
// 410 and a text about the session. The server may have lost the session, or reject the revision. The request may have
// run, because a handler may be the source of the status and the text.
type Rejection struct {
	error               // a *call.StatusError or, if the body has one, a *jsonrpc.Error
	Body         string // the beginning
	NamesSession bool   // Body is about a session, perhaps that of the connection
}

// Unwrap returns the error.
func (r *Rejection) Unwrap() error { return r.error }

// Limits for reading the body of an error response.
const (
	maxErrorBody     = 64 << 10
	maxReason        = 1 << 10 // of the text that names a reason, in bytes
	errorBodyTimeout = 2 * time.Second
)

// failureOf reads the body of a response that is not a success.
func (o *Options) failureOf(resp *http.Response) []byte {
	timer := time.AfterFunc(errorBodyTimeout, func() { resp.Body.Close() })
	defer timer.Stop()
	body, err := readBody(resp.Body, resp.ContentLength, maxErrorBody, maxInitialRead)
	if err != nil {
		return nil
	}
	o.trace(false, body)
	return body
}

// namesLostSession reports whether a response says that the server does not know the session of a request. The status
// for this is 404 (2025-11-25, basic/transports, Session Management). Servers that respond with 400, 409 or 410 name
// the session, or that it is not initialized, in a short text. An HTML page is that of a proxy.
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
