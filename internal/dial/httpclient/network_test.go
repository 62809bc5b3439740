package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// network connects an HTTP server and its clients in memory, so that tests can run in a bubble of package synctest.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *network) Addr() net.Addr { return memory{} }

type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.conns <- far:
		return near, nil
	case <-n.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// peer is a server with scripted responses, which records its requests.
type peer struct {
	http *http.Client
	net  *network

	mu       sync.Mutex
	requests []*http.Request // the request bodies are in bodies
	bodies   []string
}

// newPeer returns a server that calls answer with the body of each request.
func newPeer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *peer {
	t.Helper()
	p := &peer{net: &network{conns: make(chan net.Conn), closed: make(chan struct{})}}
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			p.mu.Lock()
			p.requests = append(p.requests, r)
			p.bodies = append(p.bodies, string(body))
			p.mu.Unlock()
			answer(w, r, string(body))
		})}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(p.net)
		close(served)
	}()
	transport := &http.Transport{DialContext: p.net.dial}
	p.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		server.Close()
		<-served
		transport.CloseIdleConnections()
	})
	return p
}

// asked lists the requests that the server received: method, path and JSON-RPC method.
func (p *peer) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for i, r := range p.requests {
		var m struct{ Method string }
		_ = json.Unmarshal([]byte(p.bodies[i]), &m)
		line := r.Method + " " + r.URL.Path
		if m.Method != "" {
			line += " " + m.Method
		}
		all = append(all, line)
	}
	return all
}

func (p *peer) request(i int) (*http.Request, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[i], p.bodies[i]
}

func (p *peer) options(t *testing.T) Options {
	return Options{URL: "http://server/mcp", HTTP: p.http, Logger: slog.New(slog.DiscardHandler), MaxMessage: 1 << 20}
}

const theSession = "the-secret-session"

// idOf returns the id of a message in its JSON form, or null.
func idOf(body string) string {
	m, _ := jsonrpc.Parse([]byte(body), jsonrpc.Limits{})
	return string(m.ID.Append(nil))
}

func methodOf(body string) string {
	m, _ := jsonrpc.Parse([]byte(body), jsonrpc.Limits{})
	return m.Method
}

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// writeEvents writes and flushes the lines of an event stream.
func writeEvents(w http.ResponseWriter, lines string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, lines)
	w.(http.Flusher).Flush()
}

func resultOf(body string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":%q}}`, idOf(body), methodOf(body))
}

// handshake answers the requests of a handshake as a server of 2025-11-25 with sessions
// does. It reports whether it has answered.
func handshake(w http.ResponseWriter, r *http.Request, body string) bool {
	switch {
	case methodOf(body) == mcp.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", theSession)
		writeJSON(w,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},`+
				`"serverInfo":{"name":"s","version":"1"}}}`, idOf(body)))
	case methodOf(body) == mcp.NotificationInitialized:
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}

// noStream answers GET requests as a server without a standalone stream does.
func noStream(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
	return r.Method == http.MethodGet
}

// caller is a client of either era.
type caller struct {
	*Client
	call     func(context.Context, *outbound.Request) (json.RawMessage, error)
	received *received
}

// received collects what a client receives besides responses.
type received struct {
	outbound.Receiver
	mu   sync.Mutex
	list []string
}

func (o *received) Receive(m *jsonrpc.Message) {
	o.mu.Lock()
	if m.Kind != jsonrpc.Response {
		o.list = append(o.list, m.Method)
	}
	o.mu.Unlock()
	o.Receiver.Receive(m)
}

func (o *received) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.list...)
}

// newModern returns a client of the modern era.
func newModern(t *testing.T, o Options) *caller {
	t.Helper()
	era, err := modern.NewClient(mcp.Implementation{Name: "c", Version: "1"}, mcp.ClientCapabilities{}, nil, false,
		o.Logger)
	must.Do(t, err)
	c := &caller{call: era.Call, received: &received{Receiver: era}}
	c.Client = NewClient(o, true, c.received)
	era.Wire = c.Client
	t.Cleanup(func() { c.Close() })
	return c
}

// newLegacy returns a client of the legacy era after the handshake.
func newLegacy(t *testing.T, o Options) *caller {
	t.Helper()
	c := must.Get(dialLegacy(t, o))(t)
	return c
}

func dialLegacy(t *testing.T, o Options) (*caller, error) {
	era := legacy.NewClient(nil, o.Logger)
	c := &caller{call: era.Call, received: &received{Receiver: era}}
	c.Client = NewClient(o, false, c.received)
	era.Wire = c.Client
	t.Cleanup(func() {
		c.Close()
		era.Close()
	})
	_, err := era.Handshake(t.Context(), mcp.V20251125, mcp.Implementation{Name: "c", Version: "1"},
		mcp.ClientCapabilities{}, &outbound.Request{})
	return c, err
}

func list(ctx context.Context, c *caller) (string, error) {
	raw, err := c.call(ctx, &outbound.Request{Method: mcp.MethodListTools})
	return string(raw), err
}

var errGaveUp = errors.New("gave up")

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(t.Context(), d, errGaveUp)
}
