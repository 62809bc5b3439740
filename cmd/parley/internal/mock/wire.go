package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// requestRule is the latency and fault of the requests of a method.
type requestRule struct {
	method  string // "*" means every method
	name    string // "" means every name
	times   int64  // 0 means without limit
	used    atomic.Int64
	latency *time.Duration
	outcome *outcome // nil means that of the server
}

// rule returns the first rule for a call that was not used as often as it may be, or nil.
func (m *Mock) rule(c *call.Call) *requestRule {
	for _, r := range m.requests {
		if r.method != "*" && r.method != c.Method() || r.name != "" && r.name != c.Name() {
			continue
		}
		if used := r.used.Add(1); r.times == 0 || used <= r.times {
			return r
		}
	}
	return nil
}

// middleware causes the latencies and faults of requests.
func (m *Mock) middleware(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if c.Notification() {
			return next(ctx, c)
		}
		latency, played := m.latency, hasScript(c.Method())
		if played {
			latency = 0 // the response has it
		}
		r := m.rule(c)
		if r != nil && r.latency != nil {
			latency = *r.latency
		}
		if err := sleep(ctx, latency); err != nil {
			return nil, err
		}
		if r != nil && r.outcome != nil {
			return end(ctx, c, r.outcome)
		}
		if s := m.others[c.Method()]; s != nil {
			return m.other(ctx, c, s)
		}
		var ending ending
		result, err := next(context.WithValue(ctx, endingKey{}, &ending), c)
		if o := ending.outcome(); o != nil {
			return end(ctx, c, o)
		}
		return result, m.unknown(c, err)
	}
}

// unknown adds the known names to the error for an unknown tool, prompt or resource, and logs it.
func (m *Mock) unknown(c *call.Call, err error) error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	known, isEntry := m.names[c.Method()]
	if !ok || !isEntry || slices.Contains(known, c.Name()) || wire.Code != jsonrpc.CodeInvalidParams &&
		wire.Code != mcp.CodeResourceNotFound {
		return err
	}
	if c.Method() == mcp.MethodReadResource && m.templates > 0 && strings.HasPrefix(wire.Message, "mock: ") {
		return err // of a template
	}
	m.logger.Warn("a request names something unknown", "request", c.Method(), "name", c.Name())
	names := slices.Sorted(slices.Values(known))
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], "…")
	}
	if names == nil {
		names = []string{"none"}
	}
	named := *wire
	named.Message += "; the mock has " + strings.Join(names, ", ")
	return &named
}

// other plays the response to a request that the server does not know.
func (m *Mock) other(ctx context.Context, c *call.Call, s *script) (any, error) {
	var ending ending
	params := c.Params().Raw()
	raw, err := m.play(context.WithValue(ctx, endingKey{}, &ending), s, withoutMeta(params), params)
	if o := ending.outcome(); o != nil {
		return end(ctx, c, o)
	}
	return raw, err
}

// hasScript reports whether the responses to a method are those of a tool, prompt or resource.
func hasScript(method string) bool {
	return method == mcp.MethodCallTool || method == mcp.MethodGetPrompt || method == mcp.MethodReadResource
}

// ending is how a handler ends a request in another way than with a result or an error. The middleware sees it.
type ending struct {
	mu sync.Mutex
	as *outcome
}

type endingKey struct{}

// outcome returns the outcome that the handler has set, or nil.
func (e *ending) outcome() *outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.as
}

func (e *ending) set(o *outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.as = o
}

// endAs makes the middleware end the request of a handler. A task has its own context, without a request to end: it
// fails with the error that endAs returns, or endAs waits until the task is cancelled.
func endAs(ctx context.Context, o *outcome) error {
	e, isRequest := ctx.Value(endingKey{}).(*ending)
	if isRequest {
		e.set(o)
	}
	switch {
	case o.err != nil:
		return o.err
	case isRequest:
		return errEnded
	case o.fault == noResponse:
		return silence(ctx)
	}
	return errTask
}

var (
	errEnded = jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: the request ends with a fault")
	errTask  = jsonrpc.Errorf(jsonrpc.CodeInternalError,
		"mock: a task can end with a result, an error or no response only")
)

// end ends a request.
func end(ctx context.Context, c *call.Call, o *outcome) (any, error) {
	switch {
	case o.err != nil:
		return nil, o.err
	case o.raw != nil:
		return o.raw, nil
	case o.fault == rateLimit:
		return nil, &call.OverloadError{Limit: "requests", RetryAfter: o.retryAfter}
	case o.fault == noResponse:
		return nil, silence(ctx)
	}
	w, _ := ctx.Value(wireKey{}).(wire)
	if w != nil {
		w.spoil(c.ID().String(), o)
	}
	if o.status != 0 {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", statusText(o.status))
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: %s", o.fault)
}

// maxSilence is the longest time for which a request has no response, if the client does not cancel it and stays
// connected.
const maxSilence = 10 * time.Minute

// silence waits until the client cancels the request or disconnects.
func silence(ctx context.Context) error {
	if err := sleep(ctx, maxSilence); err != nil {
		return err
	}
	return errors.New("mock: the client has neither cancelled the request nor disconnected")
}

// withoutMeta returns the members of params except for _meta.
func withoutMeta(params json.RawMessage) map[string]json.RawMessage {
	members := argumentsOf(params)
	delete(members, "_meta")
	return members
}

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

// faultyWriter is the http.ResponseWriter of one request. Notifications of the request may be written after its fault
// is set; they are sent.
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

// split returns the response in the events of an event stream, or the body, and what is before it. The response is nil
// if the events have none.
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
