package traffic

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Observer reports what HTTP handlers receive and send. It changes and delays nothing, except for the time that Report
// takes. It is safe for concurrent use.
type Observer struct {
	// Origin is the origin of the server in the URLs of events, such as "http://127.0.0.1:7777". Clients can use
	// other names for it.
	Origin string
	// Report receives the events of each request, possibly concurrently. A message is valid until Report returns.
	Report func(*http.Request, Event)

	exchanges atomic.Int64
}

// maxUnread is the number of bytes of a body that an Observer reads when the handler has not read it, such as in a request
// without authorization. net/http reads the same number.
const maxUnread = 256 << 10

// Handler returns a handler that reports the requests to next and their responses.
func (o *Observer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := o.exchanges.Add(1)
		report := func(e Event) {
			e.Wire, e.Exchange = HTTP, n
			o.Report(r, e)
		}
		body := &requestBody{
			ReadCloser: r.Body, report: report,
			event: Event{From: Client, Request: &Request{Method: r.Method, URL: o.Origin + r.URL.RequestURI(), Header: r.Header.Clone()}},
		}
		if r.Body == http.NoBody {
			body.end(io.EOF)
		}
		observed := r.WithContext(r.Context())
		observed.Body = body
		response := &observedResponse{ResponseWriter: w, request: body, report: report}
		returned := false
		defer func() { response.end(r, returned) }()
		next.ServeHTTP(response, observed)
		returned = true
	})
}

// observedResponse reports a response when its handler returns, and the events of an event stream at once. Like every
// http.ResponseWriter, it is not safe for concurrent use.
type observedResponse struct {
	http.ResponseWriter
	request *requestBody
	report  func(Event)

	head    *Response    // nil until it is sent
	events  *eventParser // nil: the body is one message
	message []byte
	err     error // of a write
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (w *observedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *observedResponse) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if w.head != nil || status < 200 {
		return
	}
	w.head = &Response{Status: status, Header: w.Header().Clone()}
	if isEventStream(w.head.Header) {
		w.request.end(nil)
		w.report(Event{From: Server, Response: w.head})
		w.events = &eventParser{emit: func(part StreamPart, data []byte) {
			w.report(Event{From: Server, Stream: &part, Message: data})
		}}
	}
}

// Write implements io.Writer.
func (w *observedResponse) Write(p []byte) (int, error) {
	if w.head == nil {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		w.err = err
	}
	if w.events != nil {
		w.events.write(p[:n])
	} else {
		w.message = appendBounded(w.message, p[:n])
	}
	return n, err
}

// end reports the end of a request, whose handler has returned or panicked.
func (w *observedResponse) end(r *http.Request, returned bool) {
	if returned && w.head == nil {
		w.WriteHeader(http.StatusOK)
	}
	if w.events == nil {
		_, _ = io.CopyN(io.Discard, w.request, maxUnread) // net/http reads the body before it sends the response, too
		w.request.end(nil)
	}
	e := Event{From: Server, Message: w.message, End: true}
	switch {
	case !returned:
		e.Error = "the server has aborted the response"
	case w.events != nil && r.Context().Err() != nil:
		e.From = Client // has closed the stream
	case w.err != nil:
		e.Error = w.err.Error()
	}
	if w.events == nil {
		e.Response, e.Truncated = w.head, e.Error != "" && w.head != nil
	}
	w.report(e)
}
