package httpserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// knownLength is the length of a body, in bytes, up to which net/http sets Content-Length.
const knownLength = 2048

// reply sends a JSON body. The write has a deadline, so a client that stops reading cannot block the handler.
func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = httpcodec.JSONType
	if len(body) > knownLength {
		setLength(w, body)
	}
	setWriteDeadline(w, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// respondEmpty sends a response without a body.
func respondEmpty(w http.ResponseWriter, status int) {
	setWriteDeadline(w, 0)
	w.WriteHeader(status)
}

func setLength(w http.ResponseWriter, body []byte) {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
}

// reject sends e as a JSON-RPC error with an HTTP status.
func reject(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	reply(w, status, jsonrpc.AppendError(nil, id, e, false))
}

// rejectMethod rejects a request whose HTTP method is not in allow.
func rejectMethod(w http.ResponseWriter, allow string) {
	w.Header()["Allow"] = []string{allow}
	reject(w, http.StatusMethodNotAllowed, jsonrpc.ID{},
		&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method not allowed: use " + allow})
}

// rejectInvalid rejects a request with status 400 and returns false.
func rejectInvalid(w http.ResponseWriter, request jsonrpc.ID, reason string) bool {
	reject(w, http.StatusBadRequest, request, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: reason})
	return false
}

// rejectStoreFailure rejects a request because the store of the server has failed.
func rejectStoreFailure(w http.ResponseWriter, request jsonrpc.ID) {
	setRetryAfter(w, rpc.ErrStoreUnavailable.RetryAfter)
	reject(w, http.StatusServiceUnavailable, request, rpc.StoreFailure)
}

// rejectUndelivered rejects messages that forward could not pass on. The client can send them again.
func rejectUndelivered(w http.ResponseWriter) {
	setRetryAfter(w, rpc.ErrStoreUnavailable.RetryAfter)
	reject(w, http.StatusServiceUnavailable, jsonrpc.ID{},
		&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "cannot deliver the message now: send it again"})
}

// setRetryAfter sets the Retry-After header (RFC 9110, section 10.2.3).
func setRetryAfter(w http.ResponseWriter, d time.Duration) {
	seconds := max((d+time.Second-1)/time.Second, 1)
	w.Header()["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
}

// Time-outs for reading requests and writing responses. They do not depend on the settings of the http.Server. A
// middleware that wraps the http.ResponseWriter without the method Unwrap disables them (net/http, ResponseController).
//
// net/http clears both deadlines after each response, so that the connection can serve another request.
const (
	readTimeout   = time.Minute      // for the body of a request
	unreadTimeout = 5 * time.Second  // for a body that the server ignores
	writeTimeout  = 30 * time.Second // for one write to an event stream, and for a short response
	slowestReader = 32 << 10         // rate at which a client must read a long response, in bytes per second
)

// setWriteDeadline bounds the time for which the client can delay a response of size bytes.
func setWriteDeadline(w http.ResponseWriter, size int) {
	timeout := writeTimeout + time.Duration(size/slowestReader)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
}

// boundUnread bounds the time for which net/http waits for the body of a rejected request,
// which it reads in order to reuse the connection, and for the client to read the response.
func boundUnread(w http.ResponseWriter, r *http.Request) {
	setWriteDeadline(w, 0)
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
	}
}

// closeUnread closes the connection after the response, because the rest of the body is not read.
func closeUnread(w http.ResponseWriter) {
	w.Header()["Connection"] = []string{"close"}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
}

// expireRead makes the current read of the body fail, and all later ones.
func expireRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
}

// expireWrite makes the current write fail, and all later ones.
func expireWrite(w http.ResponseWriter) error {
	return http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}
