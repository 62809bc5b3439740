package streamserver_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// patience limits the wait of a test for an immediate event.
const patience = time.Minute

// handlers are tools by name. Each receives and returns a text.
type handlers map[string]func(ctx context.Context, c *rpc.Call) (any, error)

func text(s string) (any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(s)}}, nil
}

const grace = 2 * time.Second

// newServer returns a server with tools, an echo tool, and server/discover.
func newServer(tools handlers) *streamserver.Server {
	callTool := func(ctx context.Context, c *rpc.Call) (any, error) {
		raw, _ := c.Params().Get("name")
		name := jsonrpc.Unquote(raw)
		if name == "echo" {
			arguments, _ := c.Params().Get("arguments")
			return text(string(arguments))
		}
		if h := tools[name]; h != nil {
			return h(ctx, c)
		}
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool")
	}
	logger := slog.New(slog.DiscardHandler)
	engine := rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: callTool,
		mcp.MethodDiscover: func(context.Context, *rpc.Call) (any, error) {
			return modern.Discover(mcp.ServerCapabilities{}, "",
				mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate}), nil
		},
	}, logger)
	peers := new(rpc.PeerCache)
	return &streamserver.Server{
		Modern: &modern.Server{Engine: engine, Peers: peers},
		Legacy: &legacy.Server{
			Engine: engine, Peers: peers, Logger: logger, MaxInflight: 16,
			Describe: func(principal.Principal) mcp.InitializeResult { return mcp.InitializeResult{} },
		},
		Logger:      logger,
		MaxInflight: 16,
		Grace:       grace,
	}
}

// peer is a client that writes and reads lines.
type peer struct {
	t      *testing.T
	conn   transport.Conn
	drain  context.CancelFunc
	cancel context.CancelCauseFunc
	served chan error
}

// connect serves a connection in memory, and closes it at the end of the test.
func connect(t *testing.T, s *streamserver.Server) *peer {
	near, far := transport.PipeLimits(1<<20, 4096)
	return serve(t, s, near, far)
}

func serve(t *testing.T, s *streamserver.Server, near, far transport.Conn) *peer {
	ctx, cancel := context.WithCancelCause(context.Background())
	draining, drain := context.WithCancel(context.Background())
	p := &peer{t: t, conn: near, drain: drain, cancel: cancel, served: make(chan error, 1)}
	go func() { p.served <- s.Serve(ctx, draining, far, principal.Local) }()
	t.Cleanup(func() {
		near.Close()
		cancel(nil)
		drain()
		p.served <- must.Receive(t, p.served, "Serve")
	})
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		must.Do(p.t, p.write(line), line)
	}
}

func (p *peer) write(line string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.conn.Write(ctx, []byte(line))
}

func (p *peer) receive() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line := must.Get(p.conn.Read(ctx))(p.t)
	return string(line)
}

// want fails the test unless the next lines match. "…" matches any text.
func (p *peer) want(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		got := p.receive()
		must.CheckThat(p.t, matches(got, want), "got  %s\nwant %s", got, want)
	}
}

// wantBoth fails the test unless the next two lines match, in either order.
func (p *peer) wantBoth(one, other string) {
	p.t.Helper()
	first, second := p.receive(), p.receive()
	must.CheckThat(p.t, (matches(first, one) && matches(second, other) || matches(first, other) && matches(second,
		one)), "got  %s\nand  %s\nwant %s\nand  %s", first, second, one, other)
}

func matches(got, want string) bool {
	parts := strings.Split(want, "…")
	got, ok := strings.CutPrefix(got, parts[0])
	last := len(parts) - 1
	for i, part := range parts[1:] {
		at := strings.Index(got, part)
		if i+1 == last {
			at = strings.LastIndex(got, part)
		}
		if at < 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return ok && (got == "" || parts[last] == "")
}

// alive fails the test unless the server answers the next request first.
func (p *peer) alive() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
	p.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
}

// ended returns the result of Serve.
func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.served:
		p.served <- err
		return err
	case <-time.After(patience):
		p.t.Fatal("Serve has not returned")
		return nil
	}
}

func initialize(r mcp.Revision) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,`+
		`"clientInfo":{"name":"a","version":"1"},"capabilities":{}}}`, r)
}

// handshake begins a session.
func (p *peer) handshake(r mcp.Revision) {
	p.t.Helper()
	p.send(initialize(r), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.want(`{"jsonrpc":"2.0","id":"init","result":{…"protocolVersion":"` + string(r) + `"…`)
}

// These functions return a tool call of each era. Id and argument are JSON.
func legacyCall(id, tool, argument string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,`+
		`"_meta":{"progressToken":%s}}}`, id, tool, argument, id)
}

func modernCall(id, tool, argument string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,`+
		`"_meta":{"progressToken":%s,"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool, argument, id)
}

func legacyReply(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

func modernReply(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text",`+
		`"text":%q}]}}`, id, text)
}

// era is one way to call tools, on a connection that is ready for it.
type era struct {
	name  string
	begin func(p *peer)
	call  func(id, tool, argument string) string
	reply func(id, text string) string
}

func eras() []era {
	return []era{
		{"legacy", func(p *peer) { p.handshake(mcp.V20250618) }, legacyCall, legacyReply},
		{"modern", func(*peer) {}, modernCall, modernReply},
	}
}

func inBothEras(t *testing.T, f func(t *testing.T, e era)) {
	for _, e := range eras() {
		t.Run(e.name, func(t *testing.T) { f(t, e) })
	}
}

// inBubblesOfBothEras is inBothEras with a synctest bubble for each era.
func inBubblesOfBothEras(t *testing.T, f func(t *testing.T, e era)) {
	inBothEras(t, func(t *testing.T, e era) { synctest.Test(t, func(t *testing.T) { f(t, e) }) })
}

func cancellation(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
}

// halves is a byte stream whose directions end separately, like the standard streams of a child process.
type halves struct {
	*io.PipeReader
	*io.PipeWriter
}

func (h halves) Close() error {
	h.PipeReader.Close()
	return h.PipeWriter.Close()
}

// wire is one kind of connection.
type wire struct {
	name string
	// ends returns the two ends of a connection. The server reads messages of at most 4096 bytes.
	ends func(t *testing.T) (near, far transport.Conn)
}

func wires() []wire {
	limits := transport.StreamOptions{MaxMessage: 4096}
	return []wire{
		{"memory", func(*testing.T) (near, far transport.Conn) { return transport.PipeLimits(4<<20, 4096) }},
		{"stdio", func(*testing.T) (near, far transport.Conn) {
			theirIn, in := io.Pipe()
			out, theirOut := io.Pipe()
			return transport.Stream(halves{out, in}, transport.StreamOptions{}),
				transport.Stream(halves{theirIn, theirOut}, limits)
		}},
		{"socket", func(t *testing.T) (near, far transport.Conn) {
			listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer listener.Close()
			client := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
			server := must.Get(listener.Accept())(t)
			return transport.Stream(client, transport.StreamOptions{}), transport.Stream(server, limits)
		}},
	}
}

// onEveryWire tests both eras on each wire. Begin connects to a server and makes the connection
// ready for calls. The clock is that of synctest, except on sockets.
func onEveryWire(t *testing.T, f func(t *testing.T, e era, begin func(*streamserver.Server) *peer)) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			inBothEras(t, func(t *testing.T, e era) {
				test := func(t *testing.T) {
					f(t, e, func(s *streamserver.Server) *peer {
						near, far := w.ends(t)
						p := serve(t, s, near, far)
						e.begin(p)
						return p
					})
				}
				if w.name == "socket" {
					test(t)
				} else {
					synctest.Test(t, test)
				}
			})
		})
	}
}

// goroutinesIn returns the number of goroutines that run a function of streamserver.
func goroutinesIn(function string) int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "/streamserver."+function+"(")
}

// eventually fails the test unless check returns nil within patience.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	limit := time.After(patience)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatal(err)
		}
	}
}
