package mcptest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// FuzzStateMachine reads a sequence of operations on two clients of one server from bytes: calls that end, fail, panic,
// wait, report progress or request input, cancellations, changes of the list of tools, and cuts of the connections. The
// first byte selects the revision, and memory or HTTP. Every call has exactly one outcome, and its own. No request has
// two responses, and no handler runs twice for one call. Progress arrives once and in order, also after a cut.
func FuzzStateMachine(f *testing.F) {
	operations := []byte("\x00\x81\x02\x83\x04\x85\x01\x81\x0b\x06\x87\x08\x04\x84\x02\x03\x09\x80\x0a\x01\x03\x8b\x0a\x04\x00")
	for mode := range byte(10) {
		f.Add(append([]byte{mode}, operations...))
	}
	for mode := range byte(5) { // cuts while calls report progress
		f.Add([]byte{5 + mode, 4, 0x84, 10, 4, 1, 10, 2, 4, 10})
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		if len(operations) < 2 || len(operations) > 64 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t, operations[0])
			for _, b := range operations[1:] {
				m.run(b)
			}
			m.end()
		})
	})
}

// machine is a server with two clients, and the ledger of their calls.
type machine struct {
	t        *testing.T
	revision mcp.Revision
	server   *server.Server
	network  *pipeNetwork // nil over memory
	clients  [2]*client.Client
	calls    []*machineCall
	running  sync.WaitGroup
	tools    int  // that were added
	cut      bool // a connection was cut

	mu        sync.Mutex
	starts    map[string]int // handlers that have started, by nonce
	waiting   []chan struct{}
	responses [2]map[jsonrpc.ID]int
}

// machineCall is a call of a client.
type machineCall struct {
	tool, nonce string
	cancel      context.CancelFunc
	cancelled   bool
	outcomes    int
}

func newMachine(t *testing.T, mode byte) *machine {
	revisions := mcp.Revisions()
	m := &machine{t: t, revision: revisions[int(mode)%len(revisions)], starts: make(map[string]int)}
	m.server = m.newServer()
	target := func() client.Target {
		near, far := transport.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = m.server.ServeConn(context.Background(), far)
		}()
		t.Cleanup(func() { <-served })
		return client.Conn(near)
	}
	var httpClient *http.Client
	if int(mode)/len(revisions)%2 == 1 {
		m.network = newPipeNetwork(t, m.server)
		httpClient = m.network.client()
		target = func() client.Target { return client.URL("http://localhost/mcp") }
	}
	for i := range m.clients {
		m.responses[i] = make(map[jsonrpc.ID]int)
		d := client.Dialer{
			HTTPClient: httpClient, Logger: slog.New(slog.DiscardHandler),
			Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			},
			Trace: func(sent bool, raw []byte) {
				if message, err := jsonrpc.Parse(raw, jsonrpc.Limits{}); err == nil && !sent &&
					message.Kind == jsonrpc.Response {
					m.mu.Lock()
					m.responses[i][message.ID]++
					m.mu.Unlock()
				}
			},
		}
		mcptest.WithRevision(m.revision)(&d)
		c := must.Get(d.Dial(t.Context(), target()))(t)
		m.clients[i] = c
	}
	return m
}

type machineParams struct {
	Nonce string `json:"nonce"`
}

// newServer returns a server whose tools return their nonce.
func (m *machine) newServer() *server.Server {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	add := func(name string, handler func(ctx context.Context, nonce string) error) {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, in machineParams) (string, error) {
			m.mu.Lock()
			m.starts[in.Nonce]++
			m.mu.Unlock()
			if err := handler(ctx, in.Nonce); err != nil {
				return "", err
			}
			return in.Nonce, nil
		})
	}
	add("echo", func(context.Context, string) error { return nil })
	add("fail", func(_ context.Context, nonce string) error { return errors.New(nonce) })
	add("panic", func(_ context.Context, nonce string) error { panic(nonce) })
	add("wait", func(ctx context.Context, _ string) error { return m.wait(ctx) })
	add("count", func(ctx context.Context, _ string) error {
		for i := range 3 {
			if err := server.Progress(ctx, float64(i+1), 3, ""); err != nil {
				return err
			}
			if i == 1 {
				if err := m.wait(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
	add("ask", func(ctx context.Context, _ string) error {
		_, err := server.Elicit[struct{}](ctx, "?")
		if errors.Is(err, server.ErrDeclined) {
			return nil
		}
		return err
	})
	return s
}

// wait waits until the machine releases the handler.
func (m *machine) wait(ctx context.Context) error {
	release := make(chan struct{})
	m.mu.Lock()
	m.waiting = append(m.waiting, release)
	m.mu.Unlock()
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends the oldest handler that waits. It reports whether there was one.
func (m *machine) release() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return false
	}
	close(m.waiting[0])
	m.waiting = m.waiting[1:]
	return true
}

// run runs one operation. The highest bit selects the client.
func (m *machine) run(b byte) {
	at, operation := int(b>>7), (b&0x7F)%12
	switch operation {
	case 0, 1, 4, 5, 6, 7:
		m.call(at, []string{"echo", "wait", "", "", "count", "fail", "panic", "ask"}[operation])
	case 2:
		m.release()
	case 3:
		m.mu.Lock()
		i := slices.IndexFunc(m.calls, func(c *machineCall) bool { return !c.cancelled })
		if i >= 0 {
			m.calls[i].cancelled = true
			m.calls[i].cancel()
		}
		m.mu.Unlock()
	case 8:
		m.tools++
		server.AddTool(m.server, mcp.Tool{Name: fmt.Sprint("added", m.tools)},
			func(context.Context, struct{}) (string, error) { return "", nil })
	case 9:
		m.server.RemoveTool(fmt.Sprint("added", m.tools))
	case 10:
		if m.network != nil {
			m.mu.Lock()
			m.cut = true
			m.mu.Unlock()
			m.network.cut()
		}
	case 11:
		synctest.Wait() // otherwise the operations that follow are concurrent
	}
}

// call starts a call of a tool.
func (m *machine) call(at int, tool string) {
	ctx, cancel := context.WithCancel(m.t.Context())
	c := &machineCall{tool: tool, nonce: fmt.Sprintf("%d/%d", at, len(m.calls)), cancel: cancel}
	m.calls = append(m.calls, c)
	m.running.Go(func() {
		var progress []float64
		result, err := m.clients[at].CallTool(ctx, tool, machineParams{c.nonce},
			client.WithProgress(func(done, _ float64, _ string) { progress = append(progress, done) }))
		m.mu.Lock()
		defer m.mu.Unlock()
		c.outcomes++
		m.check(c, result, err, progress)
	})
}

// check checks the outcome of a call.
func (m *machine) check(c *machineCall, result *mcp.CallToolResult, err error, progress []float64) {
	want := []float64{1, 2, 3}
	if len(progress) > 3 || !slices.Equal(progress, want[:len(progress)]) {
		m.t.Errorf("%s %s reports %v", c.tool, c.nonce, progress)
	}
	if err != nil {
		must.CheckThat(m.t, c.cancelled || m.cut, "%s %s: %v", c.tool, c.nonce, err)
		return
	}
	text := ""
	if len(result.Content) == 1 {
		if block, ok := result.Content[0].(*mcp.TextContent); ok {
			text = block.Text
		}
	}
	switch {
	case c.tool == "panic", c.tool == "ask" && m.revision < mcp.V20250618:
		must.CheckThat(m.t, result.IsError, "%s %s: %+v", c.tool, c.nonce, result)
	case c.tool == "fail" && !result.IsError, text != c.nonce && !(result.IsError && (c.cancelled || m.cut)):
		m.t.Errorf("%s %s: %q, %+v", c.tool, c.nonce, text, result)
	case c.tool == "count" && !result.IsError && len(progress) != 3:
		m.t.Errorf("count %s reports %v before its result", c.nonce, progress)
	}
}

// end waits for all calls, closes everything and checks the ledger.
func (m *machine) end() {
	ended := make(chan struct{})
	go func() {
		m.running.Wait()
		close(ended)
	}()
	for done := false; !done; {
		synctest.Wait()
		select {
		case <-ended:
			done = true
		default:
			if !m.release() {
				<-ended // timers run until the calls end
			}
		}
	}
	for _, c := range m.calls {
		c.cancel()
		must.CheckEqual(m.t, c.outcomes, 1, c.tool, c.nonce)
		// a handler that asks runs again with the answer
		if n := m.starts[c.nonce]; n > 1 && !(c.tool == "ask" && m.revision.Modern()) {
			m.t.Errorf("%s %s: %d handlers have started", c.tool, c.nonce, n)
		}
	}
	for at, c := range m.clients {
		err := c.Close()
		must.CheckThat(m.t, err == nil || m.cut, "close: %v", err)
		again := m.network != nil && (m.revision.Modern() || m.cut) // each HTTP request or session has its own ids
		for id, n := range m.responses[at] {
			must.CheckThat(m.t, n <= 1 || again, "request %s of client %d has %d responses", id, at, n)
		}
	}
}

// pipeNetwork connects HTTP clients and a server in memory.
type pipeNetwork struct {
	conns  chan net.Conn
	closed chan struct{}

	mu   sync.Mutex
	open []net.Conn
}

func newPipeNetwork(t *testing.T, s *server.Server) *pipeNetwork {
	n := &pipeNetwork{conns: make(chan net.Conn), closed: make(chan struct{})}
	h := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = h.Serve(n)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must.Check(t, s.Shutdown(ctx))
		_ = h.Close()
		<-served
	})
	return n
}

func (n *pipeNetwork) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		n.mu.Lock()
		n.open = append(n.open, far)
		n.mu.Unlock()
		select {
		case n.conns <- far:
			return near, nil
		case <-n.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}}
}

// cut closes all connections.
func (n *pipeNetwork) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		c.Close()
	}
	n.open = nil
}

func (n *pipeNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *pipeNetwork) Close() error {
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return nil
}

func (n *pipeNetwork) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
