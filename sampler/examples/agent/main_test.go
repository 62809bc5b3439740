package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// responses contains what the API of a provider returns: a call of a tool, and then an
// answer.
var responses = map[string][2]string{
	"claude-sonnet-4-5": {
		`{"id":"1","type":"message","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"tool_use","content":[
			{"type":"tool_use","id":"use1","name":"hello__greet","input":{"name":"Ada"}}]}`,
		`{"id":"2","type":"message","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"end_turn","content":[
			{"type":"text","text":"Done."}]}`},
	"gpt-5": {
		`{"id":"1","model":"gpt-5","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[
			{"id":"use1","type":"function","function":{"name":"hello__greet","arguments":"{\"name\":\"Ada\"}"}}]}}]}`,
		`{"id":"2","model":"gpt-5","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Done."}}]}`},
}

// The model sees the tools and the results, with both samplers.
func TestModelCallsTools(t *testing.T) {
	for name, answers := range responses {
		t.Run(name, func(t *testing.T) {
			var requests []string
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				requests = append(requests, string(body))
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answers[min(len(requests), 2)-1])
			}))
			t.Cleanup(api.Close)
			t.Setenv("ANTHROPIC_BASE_URL", api.URL)
			t.Setenv("ANTHROPIC_API_KEY", "key")
			t.Setenv("OPENAI_BASE_URL", api.URL)
			t.Setenv("OPENAI_API_KEY", "key")

			answer, err := run(t.Context(), startHello(t), newModel(name), "Greet Ada.")
			if err != nil || answer != "Done." || len(requests) != 2 {
				t.Fatalf("%q, %v after %q", answer, err, requests)
			}
			if !strings.Contains(requests[0], `"Greet a person by name"`) || !strings.Contains(requests[1], "Hello, Ada!") {
				t.Errorf("the model has received %q", requests)
			}
		})
	}
}

// startHello starts a host with a server that greets.
func startHello(t *testing.T) *host.Host {
	s := &server.Server{Name: "hello"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"},
		func(_ context.Context, in map[string]string) (string, error) {
			return "Hello, " + in["name"] + "!", nil
		})
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	h := &host.Host{Servers: []host.ServerConfig{{Name: "hello", Target: client.URL(endpoint.URL)}},
		Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}
