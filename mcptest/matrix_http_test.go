package mcptest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/server"
)

// These tests send raw HTTP requests that package client does not send.

// rawEndpoint serves s until the test ends.
func rawEndpoint(t *testing.T, s *server.Server) string {
	t.Helper()
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return endpoint.URL
}

// rawHTTP sends an HTTP request. The body of the response is closed when the test ends.
func rawHTTP(t *testing.T, method, url, body string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func rawText(t *testing.T, res *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rawEvent reads the next server-sent event and returns its name and data.
func rawEvent(t *testing.T, lines *bufio.Reader) (name, data string) {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("reading an event, so far %q %q: %v", name, data, err)
		}
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data += line[len("data: "):]
		case line == "" && data != "":
			return name, data
		}
	}
}

// rawModern returns a request of 2026-07-28. params must end with a comma or be empty.
func rawModern(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
}

const rawHandshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// Rule T5.
func TestFirstEventOfHTTPSSEIsEndpoint(t *testing.T) {
	url := rawEndpoint(t, newServer())
	res := rawHTTP(t, http.MethodGet, url, "", "Accept", "text/event-stream")
	lines := bufio.NewReader(res.Body)
	name, endpoint := rawEvent(t, lines)
	if res.StatusCode != http.StatusOK || name != "endpoint" || !strings.HasPrefix(endpoint, "/") {
		t.Fatalf("%s: the first event is %q %q", res.Status, name, endpoint)
	}
	old := strings.Replace(rawHandshake, "2025-11-25", "2024-11-05", 1)
	if res := rawHTTP(t, http.MethodPost, url+endpoint, old); res.StatusCode != http.StatusAccepted {
		t.Fatalf("%s %s", res.Status, rawText(t, res))
	}
	if name, response := rawEvent(t, lines); name != "" && name != "message" || !strings.Contains(response, `"2024-11-05"`) {
		t.Errorf("%q %s", name, response)
	}
	if res := rawHTTP(t, http.MethodPost, url+endpoint+"x", `{"jsonrpc":"2.0","id":2,"method":"ping"}`); res.StatusCode < 400 {
		t.Errorf("POST to a forged endpoint: %s %s", res.Status, rawText(t, res))
	}
}

// Rule T6.
func TestModernEraHasNoSessions(t *testing.T) {
	url := rawEndpoint(t, newServer())
	res := rawHTTP(t, http.MethodPost, url, rawModern("tools/list", ""), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list",
		"Mcp-Session-Id", "forged", "Last-Event-ID", "7")
	if text := rawText(t, res); res.StatusCode != http.StatusOK || !strings.Contains(text, `"tools"`) {
		t.Errorf("%s %s", res.Status, text)
	}
	if id := res.Header.Values("Mcp-Session-Id"); id != nil {
		t.Errorf("the response has the session id %q", id)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		res := rawHTTP(t, method, url, "", "MCP-Protocol-Version", "2026-07-28")
		if res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
}

// Rule T7.
func TestMessageWithoutResponseIsAcceptedOrRejected(t *testing.T) {
	url := rawEndpoint(t, newServer())
	res := rawHTTP(t, http.MethodPost, url, rawHandshake)
	id := res.Header.Get("Mcp-Session-Id")
	if text := rawText(t, res); res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("%s %s", res.Status, text)
	}
	session := []string{"MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", id}
	modern := []string{"MCP-Protocol-Version", "2026-07-28"}
	const modernNotice = `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for _, tc := range []struct {
		name, body string
		header     []string
		accepted   bool
	}{
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session, true},
		{"a response without request", `{"jsonrpc":"2.0","id":99,"result":{}}`, session, true},
		{"a notification without session", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session[:2], false},
		{"an invalid message", `{"jsonrpc":"2.0"}`, session, false},
		{"a notification of 2026-07-28", modernNotice, modern, true},
		{"a response of 2026-07-28", `{"jsonrpc":"2.0","id":99,"result":{}}`, modern, false},
	} {
		res := rawHTTP(t, http.MethodPost, url, tc.body, tc.header...)
		switch text := rawText(t, res); {
		case tc.accepted && (res.StatusCode != http.StatusAccepted || text != ""):
			t.Errorf("%s: %s %q, want status 202 and no body", tc.name, res.Status, text)
		case !tc.accepted && (res.StatusCode < 400 || res.StatusCode > 499):
			t.Errorf("%s: %s %q, want a 4xx status", tc.name, res.Status, text)
		}
	}
}

// Rule N1.
func TestSubscriptionStartsWithAcknowledgement(t *testing.T) {
	var s *server.Server
	url := rawEndpoint(t, changing(&s)())
	res := rawHTTP(t, http.MethodPost, url, rawModern("subscriptions/listen", `"notifications":{"resourcesListChanged":true},`),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	lines := bufio.NewReader(res.Body)
	const tag = `"io.modelcontextprotocol/subscriptionId":"r1"`
	if _, first := rawEvent(t, lines); !strings.Contains(first, "notifications/subscriptions/acknowledged") || !strings.Contains(first, tag) {
		t.Fatalf("the first event is %s", first)
	}
	s.RemovePrompt("greet") // not selected
	s.RemoveResource("note://a")
	if _, next := rawEvent(t, lines); !strings.Contains(next, "notifications/resources/list_changed") || !strings.Contains(next, tag) {
		t.Errorf("the next event is %s", next)
	}
}
