package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// patience is how long a test waits for a message that should arrive at once.
const patience = 10 * time.Second

// line is the client of a server that a test writes line by line, so that it can send what a client
// of this library would not.
type line struct {
	t      testing.TB
	conn   transport.Conn
	served chan error
	stop   context.CancelFunc
}

// connectLine serves a connection in memory until the test ends.
func connectLine(t testing.TB, s *server.Server) *line {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	near, far := transport.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	l := &line{t, near, make(chan error, 1), stop}
	go func() { l.served <- s.ServeConn(ctx, far) }()
	t.Cleanup(func() {
		near.Close()
		stop()
		l.ended()
	})
	return l
}

// ended returns the result of ServeConn.
func (l *line) ended() error {
	l.t.Helper()
	select {
	case err := <-l.served:
		l.served <- err
		return err
	case <-time.After(patience):
		l.t.Error("the connection is still being served")
		return nil
	}
}

func (l *line) send(text string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.conn.Write(ctx, []byte(text)); err != nil {
		l.t.Errorf("send %.200s: %v", text, err)
	}
}

func (l *line) receive() string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := l.conn.Read(ctx)
	if err != nil && err != io.EOF {
		l.t.Errorf("receive: %v", err)
	}
	return string(text)
}

// request returns a request of 2026-07-28 with these members of params.
func request(id int, method, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method, params)
}

// ask sends a request and returns its result or error.
func (l *line) ask(method, params string) (result []byte, err *jsonrpc.Error) {
	l.t.Helper()
	l.send(request(1, method, params))
	text := l.receive()
	m, invalid := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
	if invalid != nil || m.Kind != jsonrpc.Response || m.ID != jsonrpc.IntID(1) {
		l.t.Errorf("%s was answered with %s: %v", method, text, invalid)
	}
	return m.Raw, m.Err
}

// wantError fails unless the response is an error with this code and these words in its text.
func (l *line) wantError(method, params string, code int64, words string) {
	l.t.Helper()
	result, err := l.ask(method, params)
	if err == nil || err.Code != code || !strings.Contains(err.Message, words) {
		l.t.Errorf("%s %.200s: %s, %v, want code %d and %q", method, params, result, err, code, words)
	}
}

// called is the outcome of a tool call.
type called struct {
	text       string // of all text blocks
	structured string
	failed     bool
}

func (l *line) callTool(params string) called {
	l.t.Helper()
	raw, err := l.ask(mcp.MethodCallTool, params)
	if err != nil {
		l.t.Errorf("tools/call %s: %v", params, err)
		return called{}
	}
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON(raw); err != nil {
		l.t.Errorf("tools/call %s: %s: %v", params, raw, err)
	}
	c := called{structured: string(result.StructuredContent), failed: result.IsError}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			c.text += text.Text
		}
	}
	return c
}
