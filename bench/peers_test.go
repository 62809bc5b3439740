package bench

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const text = "the quick brown fox jumps over the lazy dog, and then some more"

type echoArgs struct {
	Text string `json:"text" doc:"the text to return"`
}

func newServer() *server.Server {
	s := &server.Server{
		Name: "bench", Version: "1.0.0",
		Limits: server.Limits{CallsPerSecond: 1e9}, // never reached
	}
	server.AddTool(s, mcp.Tool{Name: "echo", Description: "Return the text."},
		func(_ context.Context, in echoArgs) (string, error) { return in.Text, nil })
	return s
}

// message is the bytes of a request, with its headers over HTTP.
type message struct {
	name   string
	body   []byte
	header map[string]string
}

var accept = map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

var (
	modernCall = message{
		name: "2026-07-28",
		body: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
			text +
			`"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`),
		header: map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		},
	}
	legacyCall = message{
		name: "2025-11-25",
		body: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
			text + `"}}}`),
	}
	initialize = message{
		body: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"clientInfo":{"name":"bench","version":"1.0.0"},"capabilities":{}}}`),
		header: accept,
	}
	initialized = message{body: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}
)

func callEcho(t testing.TB, c *client.Client) {
	r, err := c.CallTool(context.Background(), "echo", echoArgs{text})
	must.That(t, err == nil && !r.IsError, "%v %v", r, err)
}

func openSession(t testing.TB, s *server.Server) message {
	t.Helper()
	post := func(m message) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", bytes.NewReader(m.body))
		for name, value := range m.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	id := post(initialize).Header.Get("Mcp-Session-Id")
	must.That(t, id != "", "no session")
	inSession := func(m message) message {
		m.header = map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
		for name, value := range initialize.header {
			m.header[name] = value
		}
		return m
	}
	must.Equal(t, post(inSession(initialized)).StatusCode, http.StatusAccepted, "notifications/initialized: status")
	return inSession(legacyCall)
}
