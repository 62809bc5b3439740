package server_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// patience is how long a test waits for a message that should arrive at once.
const patience = 10 * time.Second

// line is the client of a server that a test writes line by line.
type line struct{ *wiretest.Peer }

// connectLine serves a connection in memory until the test ends.
func connectLine(t testing.TB, s *server.Server) *line {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return &line{wiretest.Connect(t, s.ServeConn)}
}

// request returns a request of 2026-07-28 with these members of params.
func request(id int, method, params string) string {
	body, _ := wiretest.Modern(strconv.Itoa(id), method, params)
	return body
}

// ask sends a request and returns its result or error.
func (l *line) ask(method, params string) (result []byte, err *jsonrpc.Error) {
	l.T.Helper()
	l.Send(request(1, method, params))
	text := l.Receive()
	m, invalid := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
	if invalid != nil || m.Kind != jsonrpc.Response || m.ID != jsonrpc.IntID(1) {
		l.T.Errorf("%s was answered with %s: %v", method, text, invalid)
	}
	return m.Raw, m.Err
}

// wantError fails unless the response is an error with this code and these words in its text.
func (l *line) wantError(method, params string, code int64, words string) {
	l.T.Helper()
	result, err := l.ask(method, params)
	if err == nil || err.Code != code || !strings.Contains(err.Message, words) {
		l.T.Errorf("%s %.200s: %s, %v, want code %d and %q", method, params, result, err, code, words)
	}
}

// called is the outcome of a tool call.
type called struct {
	text       string // of all text blocks
	structured string
	failed     bool
}

func (l *line) callTool(params string) called {
	l.T.Helper()
	raw, err := l.ask(mcp.MethodCallTool, params)
	if err != nil {
		l.T.Errorf("tools/call %s: %v", params, err)
		return called{}
	}
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON(raw); err != nil {
		l.T.Errorf("tools/call %s: %s: %v", params, raw, err)
	}
	c := called{structured: string(result.StructuredContent), failed: result.IsError}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			c.text += text.Text
		}
	}
	return c
}
