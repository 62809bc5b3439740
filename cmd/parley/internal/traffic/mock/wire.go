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
		if writer.end() {
			panic(http.ErrAbortHandler) // the server of net/http closes the connection
		}
	})
}

// faultyWriter is the http.ResponseWriter of one request. From the time when its fault is set, it holds back what is
// written: the response, and before it notifications that the server writes later than it has got them.
type faultyWriter struct {
	http.ResponseWriter

	mu      sync.Mutex
	fault   *outcome // nil for none
	started bool     // the header is written
	held    []byte
}

func (w *faultyWriter) spoil(_ string, o *outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = o
}

// WriteHeader implements http.ResponseWriter.
func (w *faultyWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		w.started = w.started || status >= http.StatusOK
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *faultyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	w.started = true
	return w.ResponseWriter.Write(p)
}

// FlushError is called by http.ResponseController.
func (w *faultyWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return nil
	}
	w.started = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is called by http.ResponseController.
func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end writes what was held back, with the fault. It reports whether the connection must end.
func (w *faultyWriter) end() (broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return false
	}
	header := w.Header()
	isStream := strings.HasPrefix(header.Get("Content-Type"), "text/event-stream")
	sent, response := []byte(nil), w.held
	if isStream {
		sent, response = split(w.held)
	}
	switch {
	case isStream && response == nil: // which another stream has
		_, _ = w.ResponseWriter.Write(sent) // the client may have gone
		return false
	case w.fault.Status != 0 && !w.started && len(sent) == 0:
		clear(header)
		header.Set("Content-Type", "text/plain; charset=utf-8")
		if after := w.fault.RetryAfter; after > 0 {
			header.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
		}
		w.ResponseWriter.WriteHeader(w.fault.Status)
		_, _ = w.ResponseWriter.Write([]byte(statusText(w.fault.Status) + "\n")) // the client may have gone
		return false
	case w.fault.Fault == truncate:
		sent = w.held[:len(w.held)-len(response)/2]
	case w.fault.Fault == malformed && isStream:
		sent = append(sent[:len(sent):len(sent)], "event: message\ndata: "+invalidJSON+"\n\n"...)
	case w.fault.Fault == malformed:
		sent = []byte(invalidJSON)
	}
	if len(sent) > 0 {
		header.Del("Content-Length")
		_, _ = w.ResponseWriter.Write(sent)                      // the client may have gone
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the connection may end
	}
	return w.fault.Fault != malformed // or a status, but the header is sent
}

// split returns the response at the end of the events of an event stream, and what is before it.
func split(events []byte) (before, response []byte) {
	for start := 0; start < len(events); {
		event := events[start:]
		if end := bytes.Index(event, []byte("\n\n")); end >= 0 {
			event = event[:end+len("\n\n")]
		}
		if isResponse(event) {
			return events[:start], events[start:]
		}
		start += len(event)
	}
	return events, nil
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

var errDisconnected = errors.New("the connection was closed, as the file of the mock says")

// ServeConn serves a connection, and causes its faults.
func (m *Mock) ServeConn(ctx context.Context, conn transport.Conn) error {
	faulty := &faultyConn{Conn: conn, faults: make(map[string]*outcome)}
	err := m.server.ServeConn(context.WithValue(ctx, wireKey{}, faulty), faulty)
	if faulty.closed.Load() {
		return errDisconnected
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
	case o == nil, o.Status != 0:
		return c.Conn.Write(ctx, message)
	case o.Fault == malformed:
		return c.Conn.Write(ctx, []byte(invalidJSON))
	case o.Fault == truncate:
		_ = c.Conn.Write(ctx, message[:len(message)/2]) // the connection ends
	}
	c.closed.Store(true)
	return c.Conn.Close()
}
