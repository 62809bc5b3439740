package traffic

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Transport is an http.RoundTripper that reports every request, response and event of an event stream. It changes
// and delays nothing, except for the time that Report takes. It is safe for concurrent use.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Report receives the events, possibly concurrently. A message is valid until Report returns.
	Report func(Event)
	// Exchanges is the number of the last exchange. Transports that share it have no number twice. Nil means a counter of
	// this Transport.
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
	body := &responseBody{ReadCloser: resp.Body, request: req, report: t.Report, exchange: n, length: resp.ContentLength}
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
	e := Event{From: Client, Wire: HTTP, Exchange: n, Request: &Request{Method: req.Method, URL: req.URL.String(), Header: req.Header.Clone()}}
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

// responseBody reports the body of a response at its end, or the events of an event stream. If the length is known, the end
// is the last byte: with that, the client may send its next request before it reads io.EOF.
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
			b.report(Event{From: Server, Wire: HTTP, Exchange: b.exchange, Response: b.head, Message: e.Message, Truncated: true})
			e.Response, e.Message, e.Truncated = nil, nil, false
		}
	}
	b.report(e)
}
