package corpus_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// patience is how long a test waits for a message that should arrive at once.
const patience = 5 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// newServer returns the server that receives the cases. It has one of each kind of registration.
func newServer() *server.Server {
	s := &server.Server{
		Name: "corpus", Version: "1", Logger: quiet,
		Limits: server.Limits{CallsPerSecond: 1e9, CallBurst: 1e9, SessionsPerAddress: 5000},
	}
	server.AddTool(s, mcp.Tool{Name: "echo"}, func(_ context.Context, in struct {
		Text string `json:"text,omitempty"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, mcp.Tool{Name: "number"}, func(_ context.Context, in struct {
		N int64   `json:"n,omitempty"`
		F float64 `json:"f,omitempty"`
	}) (string, error) {
		return "", nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name,omitempty"`
	}) (string, error) {
		return in.Name, nil
	})
	server.CompletePrompt(s, "greet", "name", server.CompleteFrom("Ada"))
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "page://{name}", Name: "page"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return in.Name, nil
	})
	return s
}

// serveInMemory serves one end of a pipe until the test ends.
func serveInMemory(t *testing.T, s *server.Server, conn transport.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(ctx, conn)
	}()
	t.Cleanup(func() {
		cancel()
		conn.Close()
		<-done
	})
}

// newGateway returns the server of a gateway to target.
func newGateway(t *testing.T, target client.Target) *server.Server {
	t.Helper()
	s := &server.Server{Name: "gateway", Version: "1", Limits: server.Limits{CallsPerSecond: 1e9, CallBurst: 1e9}}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: target}}}, s)
	return s
}

// inMemory returns a target that is a server in this process.
func inMemory(t *testing.T, s *server.Server) client.Target {
	near, far := transport.Pipe()
	serveInMemory(t, s, far)
	return client.Conn(near)
}
