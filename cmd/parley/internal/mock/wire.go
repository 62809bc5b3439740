package mock

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/transport"
)

// wire causes the faults of a connection.
type wire interface {
	// spoil makes the response to the request with an id faulty. The response must not have been sent.
	spoil(id string, o *outcome)
}

type wireKey struct{}

// invalidJSON begins like a response.
const invalidJSON = `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"malformed}]}`

// Handler returns a handler of the server that causes the faults of connections. Next handles the requests; it is
// the server, or a handler that calls it.
func (m *Mock) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writer := &faultyWriter{ResponseWriter: w}
		next.ServeHTTP(writer, r.WithContext(context.WithValue(r.Context(), wireKey{}, writer)))
		if writer.isBroken() {
			panic(http.ErrAbortHandler) // the server of net/http closes the connection
		}
	})
}

// faultyWriter is the http.ResponseWriter of one request. Notifications of the request may be written after its fault is
// set; they are sent.
type faultyWriter struct {
	http.ResponseWriter

	mu      sync.Mutex
	fault   *outcome // nil for none
	started bool     // the header is written
	waiting bool     // the header of an event stream waits for an event, because the response may have a fault
	ended   bool     // nothing more is written
	broken  bool     // the connection ends
}

func (w *faultyWriter) spoil(_ string, o *outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = o
}

func (w *faultyWriter) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken || w.waiting
}

// WriteHeader implements http.ResponseWriter.
func (w *faultyWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *faultyWriter) writeHeader(status int) {
	switch {
	case w.ended:
		return
	case w.fault == nil:
	case w.isEventStream() && !w.started:
		w.waiting = true
		return
	case w.fault.status != 0 && !w.started:
		w.writeStatus()
		return
	case w.fault.fault == disconnect:
		w.ended, w.broken = true, true
		return
	default:
		w.Header().Del("Content-Length")
		status = http.StatusOK
	}
	w.start(status)
}

// start writes the header.
func (w *faultyWriter) start(status int) {
	w.started, w.waiting = w.started || status >= http.StatusOK, false
	w.ResponseWriter.WriteHeader(status)
}

// writeStatus writes the response of an outcome with a status.
func (w *faultyWriter) writeStatus() {
	header := w.Header()
	clear(header)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if after := w.fault.retryAfter; after > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	w.started, w.waiting, w.ended = true, false, true
	w.ResponseWriter.WriteHeader(w.fault.status)
	_, _ = w.ResponseWriter.Write([]byte(statusText(w.fault.status) + "\n")) // the client has gone
}

// Write implements http.ResponseWriter.
func (w *faultyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.writeHeader(http.StatusOK)
	}
	switch {
	case w.ended:
		return len(p), nil
	case w.fault == nil:
		return w.ResponseWriter.Write(p)
	}
	before, response := w.split(p)
	if w.waiting {
		switch {
		case len(before) > 0, w.fault.fault == truncate, w.fault.fault == malformed:
			w.start(http.StatusOK)
		case w.fault.status != 0:
			w.writeStatus()
			return len(p), nil
		default:
			w.ended, w.broken = true, true
			return len(p), nil
		}
	}
	if response == nil {
		return w.ResponseWriter.Write(p)
	}
	w.ended, w.broken = true, w.fault.fault != malformed // or a status, but the header is sent
	switch w.fault.fault {
	case truncate:
		before = p[:len(p)-len(response)/2]
	case malformed:
		before = append(before[:len(before):len(before)], strings.Replace(w.frame(), "%s", invalidJSON, 1)...)
	}
	_, _ = w.ResponseWriter.Write(before)                    // the client may have gone
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the connection may end
	return len(p), nil
}

// split returns the response in the events of an event stream, or the body, and what is before it. The response is nil if
// the events have none.
func (w *faultyWriter) split(p []byte) (before, response []byte) {
	if !w.isEventStream() {
		return nil, p
	}
	for start := 0; start < len(p); {
		event := p[start:]
		if end := bytes.Index(event, []byte("\n\n")); end >= 0 {
			event = event[:end+len("\n\n")]
		}
		if isResponse(event) {
			return p[:start], p[start:]
		}
		start += len(event)
	}
	return p, nil
}

// isResponse reports whether an event has a response, or a batch, rather than a request, a notification or no message.
func isResponse(event []byte) bool {
	var data []byte
	for line := range bytes.Lines(event) {
		if text, isData := bytes.CutPrefix(line, []byte("data:")); isData {
			data = append(data, text...)
		}
	}
	_, hasMethod := jsonrpc.Get(data, "method")
	return len(bytes.TrimSpace(data)) > 0 && !hasMethod
}

// frame returns the form of a response.
func (w *faultyWriter) frame() string {
	if w.isEventStream() {
		return "event: message\ndata: %s\n\n"
	}
	return "%s"
}

func (w *faultyWriter) isEventStream() bool {
	return strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
}

// FlushError is called by http.ResponseController.
func (w *faultyWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.waiting {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is called by http.ResponseController.
func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ErrDisconnected is returned by [Mock.ServeConn] after a fault that ends the connection.
var ErrDisconnected = errors.New("the connection was closed, as the file of the mock says")

// ServeConn serves a connection, and causes its faults.
func (m *Mock) ServeConn(ctx context.Context, conn transport.Conn) error {
	faulty := &faultyConn{Conn: conn, faults: make(map[string]*outcome)}
	err := m.server.ServeConn(context.WithValue(ctx, wireKey{}, faulty), faulty)
	if faulty.closed.Load() {
		return ErrDisconnected
	}
	return err
}

// faultyConn is a connection over a byte stream.
type faultyConn struct {
	transport.Conn
	closed atomic.Bool // by a fault

	mu     sync.Mutex
	faults map[string]*outcome // by id of the request
}

// maxFaults is the limit of responses with a fault that are expected at the same time.
const maxFaults = 1000

func (c *faultyConn) spoil(id string, o *outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) == maxFaults { // responses that were not sent, because the client has cancelled the requests
		clear(c.faults)
	}
	c.faults[id] = o
}

// take returns the fault of a response, or nil.
func (c *faultyConn) take(message []byte) *outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) == 0 {
		return nil
	}
	if _, isRequest := jsonrpc.Get(message, "method"); isRequest {
		return nil
	}
	raw, _ := jsonrpc.Get(message, "id")
	id := string(bytes.TrimSpace(raw))
	o := c.faults[id]
	delete(c.faults, id)
	return o
}

// Write implements transport.Conn.
func (c *faultyConn) Write(ctx context.Context, message []byte) error {
	o := c.take(message)
	switch {
	case o == nil, o.status != 0:
		return c.Conn.Write(ctx, message)
	case o.fault == malformed:
		return c.Conn.Write(ctx, []byte(invalidJSON))
	case o.fault == truncate:
		_ = c.Conn.Write(ctx, message[:len(message)/2]) // the connection ends
	}
	c.closed.Store(true)
	return c.Conn.Close()
}
