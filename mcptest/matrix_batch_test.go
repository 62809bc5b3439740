package mcptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// exchange sends a raw message in a session and returns the response, or "" if there is
// none.
type exchange func(t *testing.T, message string) string

// onEveryWire runs f with a session of each legacy revision, on a stream and over HTTP.
func onEveryWire(t *testing.T, s func() *server.Server, f func(t *testing.T, r mcp.Revision, send exchange)) {
	for _, r := range mcp.Revisions() {
		if r.Modern() {
			continue
		}
		t.Run(string(r)+"/memory", func(t *testing.T) { f(t, r, overMemory(t, s(), r)) })
		if r != mcp.V20241105 {
			t.Run(string(r)+"/http", func(t *testing.T) { f(t, r, overHTTP(t, s(), r)) })
		}
	}
}

// overMemory returns an exchange over a memory connection. After a batch of
// notifications it sends a ping: if the next message is its response, the batch has none.
func overMemory(t *testing.T, s *server.Server, r mcp.Revision) exchange {
	p := newRawPeer(t, s, r)
	return func(t *testing.T, message string) string {
		t.Helper()
		p.send(t, message)
		if !strings.Contains(message, `"id"`) && strings.HasPrefix(message, `[{`) {
			if response := p.ask(t, `{"jsonrpc":"2.0","id":"after","method":"ping"}`); response != `{"jsonrpc":"2.0","id":"after","result":{}}` {
				return response
			}
			return ""
		}
		return p.receive(t)
	}
}

func overHTTP(t *testing.T, s *server.Server, r mcp.Revision) exchange {
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	session := ""
	post := func(t *testing.T, message string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint.URL, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", string(r))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		return resp.StatusCode, string(body)
	}
	post(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+string(r)+`","clientInfo":{"name":"raw","version":"1"},"capabilities":{}}}`)
	post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return func(t *testing.T, message string) string {
		t.Helper()
		status, body := post(t, message)
		want := http.StatusOK
		switch {
		case body == "":
			want = http.StatusAccepted
		case strings.HasPrefix(body, `{`) && strings.Contains(body, `"error"`):
			want = http.StatusBadRequest
		}
		if status != want {
			t.Errorf("%s: status %d with %q", message, status, body)
		}
		return body
	}
}

// meeting returns a server with the tool "meet", which returns when two calls run at the
// same time.
func meeting() *server.Server {
	s := newServer()
	met := make(chan struct{})
	server.AddTool(s, mcp.Tool{Name: "meet", Description: "Waits for another call."}, func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return "met", nil
	})
	return s
}

const meet = `"method":"tools/call","params":{"name":"meet"}}`

// Rule J7: the response to a batch is a batch in the order of the requests, which are served
// concurrently.
func TestBatchIsAnsweredByBatch(t *testing.T) {
	onEveryWire(t, meeting, func(t *testing.T, r mcp.Revision, send exchange) {
		if r != mcp.V20250326 {
			return
		}
		got := send(t, `[{"jsonrpc":"2.0","id":"a",`+meet+`,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}},{"jsonrpc":"2.0","id":1,`+meet+`]`)
		if err := spec.ValidateMessage(r, []byte(got), mcp.MethodCallTool); err != nil {
			t.Error(err)
		}
		var responses []struct {
			ID     any
			Result *mcp.CallToolResult
		}
		if err := json.Unmarshal([]byte(got), &responses); err != nil || len(responses) != 2 || fmt.Sprint(responses[0].ID, ",", responses[1].ID) != "a,1" ||
			responses[0].Result == nil || responses[1].Result == nil {
			t.Errorf("response: %s, %v", got, err)
		}
		if got := send(t, `[{"jsonrpc":"2.0","id":9,"method":"ping"}]`); got != `[{"jsonrpc":"2.0","id":9,"result":{}}]` {
			t.Errorf("response to a batch of one: %s", got)
		}
		got = send(t, `[{"jsonrpc":"2.0","id":2,"method":"ping"},7,{"jsonrpc":"2.0","id":3,"method":"no/such"}]`)
		if !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) || !strings.Contains(got, `"id":3,"error":{"code":-32601,`) {
			t.Errorf("response to a batch with invalid messages: %s", got)
		}
	})
}

// Rule J5.
func TestBatchOfNotificationsHasNoResponse(t *testing.T) {
	onEveryWire(t, newServer, func(t *testing.T, r mcp.Revision, send exchange) {
		if r != mcp.V20250326 {
			return
		}
		if got := send(t, `[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`); got != "" {
			t.Errorf("response: %s", got)
		}
	})
}

// Rule J8: no request of an invalid batch is served.
func TestInvalidBatchIsRejectedAsAWhole(t *testing.T) {
	call := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"touch"}}`
	}
	var many []string
	for i := range 101 {
		many = append(many, call(fmt.Sprint(i)))
	}
	touched := make(chan struct{}, 1000)
	touching := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "touch", Description: "Counts its calls."}, func(context.Context, struct{}) (string, error) {
			touched <- struct{}{}
			return "", nil
		})
		return s
	}
	onEveryWire(t, touching, func(t *testing.T, r mcp.Revision, send exchange) {
		batches := map[string]string{
			"too many":       `[` + strings.Join(many, ",") + `]`,
			"duplicate id":   `[` + call("1") + `,` + call("2") + `,` + call("1") + `]`,
			"a handshake":    `[` + call("1") + `,{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26","clientInfo":{"name":"x","version":"1"},"capabilities":{}}}]`,
			"empty":          `[]`,
			"modern request": `[` + call("1") + `,{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}]`,
			"invalid JSON":   `[` + call("1") + `,]`,
		}
		if r != mcp.V20250326 {
			batches["of one"] = `[` + call("1") + `]`
			batches["of two"] = `[` + call("1") + `,` + call("2") + `]`
		}
		for name, batch := range batches {
			got := send(t, batch)
			if !strings.HasPrefix(got, `{`) || !strings.Contains(got, `"error":{"code":-32`) {
				t.Errorf("%s: response %s, want an error", name, got)
			}
			if err := spec.ValidateMessage(r, []byte(got), ""); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(touched) > 0 {
			t.Errorf("%d calls were served", len(touched))
		}
	})
}

// Rule J8.
func TestModernEraHasNoBatches(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	p := newRawPeer(t, newServer(), mcp.V20250326)
	p.ask(t, request)
	if got := p.ask(t, `[`+request+`]`); !strings.Contains(got, `"error":{"code":-32600`) {
		t.Errorf("response: %s", got)
	}
}
