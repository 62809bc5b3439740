//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// lateLogger is a server of 2025-11-25 with sessions, whose tool returns the id of the session. It logs the id on the
// standalone stream of the session when the test lets it.
type lateLogger struct {
	answers upstream
	end     chan struct{} // closed at the end of the test

	mu       sync.Mutex
	sessions map[string]chan string // the messages to log
}

func (l *lateLogger) messages(session string) chan string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[session] == nil {
		l.sessions[session] = make(chan string, 10)
	}
	return l.sessions[session]
}

func (l *lateLogger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		stream := http.NewResponseController(w)
		for {
			_ = stream.Flush()
			select {
			case level := <-l.messages(session):
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":%q,\"data\":%q}}\n\n", level, session)
			case <-r.Context().Done():
				return
			case <-l.end:
				return
			}
		}
	}
	raw, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case mcp.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", rand.Text())
	case mcp.MethodCallTool:
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"content":[{"type":"text","text":"`+session+`"}]}`)))
		return
	}
	_, _ = w.Write(l.answers.answer(&m))
}

// What a server logs after a call reaches the session of its caller, and no other one, at the level of the session.
func TestLogMessagesAfterACallReachTheSessionOfTheCaller(t *testing.T) {
	l := &lateLogger{end: make(chan struct{}), sessions: make(map[string]chan string), answers: upstream{
		mcp.MethodListTools: `{"tools":[{"name":"session","inputSchema":{"type":"object"}}]}`, mcp.MethodSetLevel: `{}`,
		mcp.MethodInitialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"up","version":"1"}}`,
	}}
	up := httptest.NewServer(l)
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(l.end) })
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(up.URL)}}}, s)
	type user struct {
		session string
		logged  chan string
	}
	var users []user
	for range 2 {
		u := user{logged: make(chan string, 10)}
		c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
			d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) { u.logged <- m.Logger + " " + string(m.Data) }
		})
		var err error
		if u.session, err = client.CallTool[string](t.Context(), c, "up__session", nil); err != nil {
			t.Fatal(err)
		}
		users = append(users, u)
	}
	for _, u := range users {
		l.messages(u.session) <- "debug" // less than the default of a session
		l.messages(u.session) <- "error"
	}
	for _, u := range users {
		select {
		case got := <-u.logged:
			if want := fmt.Sprintf("up %q", u.session); got != want {
				t.Errorf("received %s, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Error("no log message")
		}
	}
	for _, u := range users {
		if len(u.logged) > 0 {
			t.Errorf("also received %s", <-u.logged)
		}
	}
}
