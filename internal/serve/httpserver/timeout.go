package httpserver

import (
	"net/http"
	"time"
)

// Time-outs for reading requests and writing responses. They do not depend on the settings of
// the http.Server. A middleware that wraps the http.ResponseWriter without the method Unwrap
// disables them (net/http, ResponseController).
//
// net/http clears both deadlines after each response, so that the connection can serve
// another request.
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

// closeUnread closes the connection after the response, because the rest of the body is not
// read.
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
