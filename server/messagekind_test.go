package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// counting returns a server that counts the runs of its handlers.
func counting(runs *atomic.Int64) *server.Server {
	s := httpServer()
	s.RootsChanged = func(context.Context) { runs.Add(1) }
	server.AddTool(s, mcp.Tool{Name: "run"}, func(context.Context, struct{}) (string, error) {
		runs.Add(1)
		return "", nil
	})
	server.AddExtension(s, server.Extension{
		ID: "com.example/x",
		Requests: map[string]server.ExtensionRequest{"x/run": func(context.Context, json.RawMessage) (any, error) {
			runs.Add(1)
			return nil, nil
		}},
		Notifications: map[string]server.ExtensionNotification{"notifications/x": func(context.Context, json.RawMessage) { runs.Add(1) }},
	})
	return s
}

// A request with the name of a notification is no request of the protocol. Its response is the
// error for an unknown method, and no handler runs.
func TestARequestNamedAsANotificationIsAnUnknownMethod(t *testing.T) {
	var runs atomic.Int64
	onEverySurface(t, func() *server.Server { return counting(&runs) }, func(t *testing.T, s surface) {
		names := []string{"notifications/x", "notifications/unknown", mcp.NotificationTasks}
		for _, m := range revision.Methods() {
			if m.Notification {
				names = append(names, m.Name)
			}
		}
		for i, name := range names {
			if response := s.ask(i+1, name, ""); !strings.Contains(response, `"code":-32601`) {
				t.Errorf("%s: %s", name, response)
			}
		}
		if n := runs.Swap(0); n != 0 {
			t.Errorf("%d handlers ran", n)
		}
	})
}

// A notification with the name of a request has no response and runs no handler.
func TestANotificationNamedAsARequestIsIgnored(t *testing.T) {
	var runs atomic.Int64
	onEverySurface(t, func() *server.Server { return counting(&runs) }, func(t *testing.T, s surface) {
		params := map[string]string{mcp.MethodCallTool: `"name":"run"`}
		names := []string{"x/run", "unknown"}
		for _, m := range revision.Methods() {
			if !m.Notification {
				names = append(names, m.Name)
			}
		}
		for _, name := range names {
			if response := s.notify(name, params[name]); response != "" {
				t.Errorf("%s: %s", name, response)
			}
		}
		if n := runs.Swap(0); n != 0 {
			t.Errorf("%d handlers ran", n)
		}
	})
}

// In a batch, too, only a notification completes the handshake. A session without one ends
// after 30 seconds.
func TestARequestInABatchDoesNotCompleteTheHandshake(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}]`
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, "2025-03-26"))
		session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}
		if rec := inBubble(s, http.MethodPost, batch, session...); !strings.Contains(rec.Body.String(), `"code":-32601`) {
			t.Errorf("%s", rec.Body)
		}
		time.Sleep(31 * time.Second)
		if rec := inBubble(s, http.MethodPost, pingBody, session...); rec.Code != http.StatusNotFound {
			t.Errorf("the session did not end: %d %s", rec.Code, rec.Body)
		}
	})
}
