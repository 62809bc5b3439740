package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// Published clients send empty params where the schema has none, and null for no arguments.
func TestEmptyParamsAndNullArgumentsAreAccepted(t *testing.T) {
	s := &server.Server{Name: "s", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (string, error) { return "called", nil })
	if err := s.RegisterTool(mcp.Tool{Name: "raw", InputSchema: []byte(`{"type":"object"}`)}, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("called with " + string(arguments))}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, struct {
		X string `json:"x,omitempty"`
	}) (string, error) {
		return "prompt", nil
	})
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
	requests := map[string]string{
		"tools/list": ``, "prompts/list": ``, "resources/list": ``, "resources/templates/list": ``,
		"tools/call": `"name":"a","arguments":null`, "tools/call raw": `"name":"raw","arguments":null`, "prompts/get": `"name":"a","arguments":null`,
	}
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			near, far := transport.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(context.Background(), far) }()
			defer func() {
				near.Close()
				<-served
			}()
			ctx := t.Context()
			exchange := func(method, params string) {
				method, _, _ = strings.Cut(method, " ")
				if err := near.Write(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)); err != nil {
					t.Fatal(err)
				}
				answer, err := near.Read(ctx)
				if err != nil || !strings.Contains(string(answer), `"result":{`) || strings.Contains(string(answer), `"isError":true`) {
					t.Errorf("%s %s: %s, %v", method, params, answer, err)
				}
			}
			meta := ""
			if r.Modern() {
				meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
				exchange("server/discover", "{"+meta+"}")
			} else {
				exchange("initialize", `{"protocolVersion":"`+string(r)+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
				if err := near.Write(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`)); err != nil {
					t.Fatal(err)
				}
				exchange("ping", "{}")
			}
			for method, params := range requests {
				if params != "" && meta != "" {
					params += ","
				}
				exchange(method, "{"+params+meta+"}")
			}
		})
	}
}
