package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/transport"
)

// Transport is an http.RoundTripper that reports every request, response and event of an event stream. It changes
// and delays nothing, except for the time that Report takes. It is safe for concurrent use.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Report receives the events, possibly concurrently. A message is valid until Report returns.
	Report func(Event)
	// Exchanges is the number of the last exchange. Transports that share it have no number twice. Nil means a counter
	// of this Transport.
	Exchanges *atomic.Int64

	own atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	exchanges := t.Exchanges
	if exchanges == nil {
		exchanges = &t.own
	}
	n := exchanges.Add(1)
	sent := t.request(n, req)
	resp, err := base.RoundTrip(sent)
	if err != nil {
		t.Report(Event{From: endedBy(req), Wire: HTTP, Exchange: n, End: true, Error: err.Error()})
		return nil, err
	}
	head := &Response{Status: resp.StatusCode, Header: resp.Header.Clone()}
	body := &responseBody{ReadCloser: resp.Body, request: req, report: t.Report, exchange: n,
		length: resp.ContentLength}
	if isEventStream(resp.Header) {
		t.Report(Event{From: Server, Wire: HTTP, Exchange: n, Response: head})
		body.events = &eventParser{emit: func(part StreamPart, data []byte) {
			t.Report(Event{From: Server, Wire: HTTP, Exchange: n, Stream: &part, Message: data})
		}}
	} else {
		body.head = head
		if resp.ContentLength == 0 {
			body.end(Event{From: Server})
		}
	}
	resp.Body = body
	return resp, nil
}

// request reports a request, now or when its body has been read, and returns the request to send.
func (t *Transport) request(n int64, req *http.Request) *http.Request {
	e := Event{From: Client, Wire: HTTP, Exchange: n,
		Request: &Request{Method: req.Method, URL: req.URL.String(), Header: req.Header.Clone()}}
	if req.Body == nil || req.Body == http.NoBody {
		t.Report(e)
		return req
	}
	if req.GetBody != nil { // the Base may send the body several times
		if body, err := req.GetBody(); err == nil {
			e.Message, _ = io.ReadAll(io.LimitReader(body, MaxMessage+1))
			body.Close()
			t.Report(e)
			return req
		}
	}
	out := *req
	out.Body = &requestBody{ReadCloser: req.Body, report: t.Report, event: e}
	return &out
}

// endedBy returns the side that has ended an exchange with an error.
func endedBy(req *http.Request) Side {
	if req.Context().Err() != nil {
		return Client
	}
	return Server
}

// responseBody reports the body of a response at its end, or the events of an event stream. If the length is known, the
// end is the last byte: with that, the client may send its next request before it reads io.EOF.
type responseBody struct {
	io.ReadCloser
	request  *http.Request
	report   func(Event)
	exchange int64
	head     *Response    // nil: already reported
	events   *eventParser // nil: the body is one message
	length   int64        // of the body; -1: unknown

	mu      sync.Mutex
	message []byte
	read    int64
	done    bool
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.events != nil {
		b.events.write(p[:n])
	}
	b.mu.Lock()
	b.read += int64(n)
	if b.events == nil {
		b.message = appendBounded(b.message, p[:n])
	}
	complete := b.read == b.length
	b.mu.Unlock()
	if err == io.EOF || complete {
		b.end(Event{From: Server})
	} else if err != nil {
		b.end(Event{From: endedBy(b.request), Error: err.Error()})
	}
	return n, err
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	b.mu.Lock()
	complete := b.read == b.length
	b.mu.Unlock()
	if complete {
		b.end(Event{From: Server})
	} else {
		b.end(Event{From: Client}) // has not read to the end
	}
	return b.ReadCloser.Close()
}

func (b *responseBody) end(e Event) {
	b.mu.Lock()
	done := b.done
	b.done = true
	e.Message = b.message
	b.mu.Unlock()
	if done {
		return
	}
	e.Wire, e.Exchange, e.End = HTTP, b.exchange, true
	if b.head != nil {
		e.Response, e.Truncated = b.head, e.From == Client || e.Error != ""
		if e.From == Client {
			b.report(Event{From: Server, Wire: HTTP, Exchange: b.exchange, Response: b.head, Message: e.Message,
				Truncated: true})
			e.Response, e.Message, e.Truncated = nil, nil, false
		}
	}
	b.report(e)
}

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

// maxUnread is the number of bytes of a body that an Observer reads when the handler has not read it, such as in a
// request without authorization. net/http reads the same number.
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
			event: Event{From: Client, Request: &Request{Method: r.Method, URL: o.Origin + r.URL.RequestURI(),
				Header: r.Header.Clone()}},
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

// ServerConn returns the connection of a server that reports the messages of the client and of the server, possibly
// concurrently. A message is valid until report returns.
func ServerConn(conn transport.Conn, report func(Event)) transport.Conn {
	return &serverConn{conn, report}
}

type serverConn struct {
	transport.Conn
	report func(Event)
}

// Read implements transport.Conn.
func (c *serverConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.Conn.Read(ctx)
	switch {
	case err == nil:
		c.report(Event{From: Client, Wire: Stdio, Message: msg})
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.report(Event{From: Client, Wire: Stdio, End: true})
	}
	return msg, err
}

// Write implements transport.Conn.
func (c *serverConn) Write(ctx context.Context, msg []byte) error {
	c.report(Event{From: Server, Wire: Stdio, Message: msg})
	return c.Conn.Write(ctx, msg)
}

// requestBody reports a request when its body ends.
type requestBody struct {
	io.ReadCloser
	report func(Event)

	mu    sync.Mutex // Close may be called during Read
	event Event
	done  bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.event.Message = appendBounded(b.event.Message, p[:n])
	b.mu.Unlock()
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.end(nil)
	return b.ReadCloser.Close()
}

// end reports the request, unless that was done. err is the error of the last read: io.EOF after the whole body, and
// nil if the rest of the body is not read.
func (b *requestBody) end(err error) {
	b.mu.Lock()
	done, e := b.done, b.event
	b.done = true
	b.mu.Unlock()
	if done {
		return
	}
	e.Truncated = err != io.EOF
	if err != nil && err != io.EOF {
		e.Error = err.Error()
	}
	b.report(e)
}

// appendBounded appends to a message. It drops what exceeds MaxMessage by more than a byte, by which a Writer
// recognises the message as too long.
func appendBounded(message, part []byte) []byte {
	return append(message, part[:min(len(part), MaxMessage+1-len(message))]...)
}

// isEventStream reports whether a response with a header is a stream of server-sent events.
func isEventStream(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media == "text/event-stream"
}

// eventParser finds the events in the bytes of an event stream (HTML Living Standard, section 9.2.6).
type eventParser struct {
	emit func(part StreamPart, data []byte) // owns nothing of data

	started bool // a leading BOM has been skipped
	skip    bool // the last line ended with CR: ignore an LF that follows
	line    []byte
	part    StreamPart
	data    []byte
	hasData bool // a data field has been read
	any     bool // a field has been read
}

func (p *eventParser) write(b []byte) {
	for len(b) > 0 {
		if p.skip {
			p.skip = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			p.line = appendBounded(p.line, b)
			return
		}
		p.line = appendBounded(p.line, b[:end])
		p.skip = b[end] == '\r'
		b = b[end+1:]
		p.endLine()
	}
}

func (p *eventParser) endLine() {
	line := p.line
	p.line = p.line[:0]
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line) == 0 {
		if p.any {
			p.emit(p.part, p.data)
		}
		p.part, p.data, p.hasData, p.any = StreamPart{}, p.data[:0], false, false
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if p.hasData {
			p.data = appendBounded(p.data, []byte("\n"))
		}
		p.data, p.hasData = appendBounded(p.data, value), true
	case "event":
		p.part.Name = string(value)
	case "id":
		p.part.ID = string(value)
	case "retry":
		p.part.Retry = string(value)
	default:
		return // a comment, or unknown
	}
	p.any = true
}
