package legacy

import (
	"context"
	"log/slog"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handling is a call in a handler of newServer.
type handling struct {
	ctx     context.Context
	call    *rpc.Call
	release chan struct{} // close it to make the handler return
}

// newServer returns a server whose tools/list returns at once, whose tools/call waits, and
// whose resources/read ends its goroutine.
func newServer() (s *Server, calls chan handling) {
	calls = make(chan handling, 16)
	s = &Server{
		Peers:  &rpc.PeerCache{},
		Logger: slog.New(slog.DiscardHandler),
		Describe: func(principal.Principal) mcp.InitializeResult {
			return mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "s", Version: "1"}}
		},
		MaxInflight: 3,
	}
	s.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.MethodListTools: func(context.Context, *rpc.Call) (any, error) { return &mcp.EmptyResult{}, nil },
		mcp.MethodCallTool: func(ctx context.Context, c *rpc.Call) (any, error) {
			h := handling{ctx, c, make(chan struct{})}
			calls <- h
			select {
			case <-h.release:
			case <-ctx.Done():
			}
			return &mcp.EmptyResult{}, nil
		},
		mcp.MethodReadResource: func(context.Context, *rpc.Call) (any, error) {
			runtime.Goexit()
			return nil, nil
		},
	}, s.Logger)
	return s, calls
}

func parse(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	must.Do(t, err, raw)
	return &m
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`
}

// handshake performs the handshake of a session.
func handshake(t *testing.T, s *Session, version string) {
	t.Helper()
	out := serve(t.Context(), s, parse(t, initialize(version)), nil)
	must.That(t, s.Initialized(), "%s", out)
}

func newSession(t *testing.T, s *Server, version string) *Session {
	t.Helper()
	session := s.NewSession(principal.Anonymous)
	handshake(t, session, version)
	return session
}

func user(t *testing.T, name string) principal.Principal {
	t.Helper()
	who := must.Get(principal.New("https://issuer.example", name, ""))(t)
	return who
}

// serve serves one request and returns the response.
func serve(ctx context.Context, s *Session, m *jsonrpc.Message, stream rpc.Stream) (reply []byte) {
	rpc.Isolate(func() { s.Serve(ctx, &reply, m, stream) }) // the middleware of some tests ends its goroutine
	return reply
}
