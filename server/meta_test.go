package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

var badKeys = []string{"-x", "com..example/x", "a b", "io.modelcontextprotocol/x", "dev.mcp/x", mcp.MetaServerInfo, mcp.MetaProgressToken}

// Rule J11: reserved keys in definitions are an error when the program adds the definition.
func TestMetaKeysOfDefinitionsAreChecked(t *testing.T) {
	offer := func(s *server.Server, key string) map[string]error {
		meta := mcp.Meta{key: json.RawMessage("1")}
		none := func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil }
		return map[string]error{
			"tool":     s.RegisterTool(mcp.Tool{Name: "x", Meta: meta}, raw),
			"prompt":   s.RegisterPrompt(mcp.Prompt{Name: "x", Meta: meta}, func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }),
			"resource": s.RegisterResource(mcp.Resource{URI: "x://x", Name: "x", Meta: meta}, none),
			"template": s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "x://{x}", Name: "x", Meta: meta}, none),
		}
	}
	for _, key := range badKeys {
		for kind, err := range offer(new(server.Server), key) {
			if err == nil || !strings.Contains(err.Error(), "_meta") {
				t.Errorf("a %s with %q: %v", kind, key, err)
			}
		}
	}
	for _, key := range []string{"x", "com.example/x", "com.example.mcp/x", mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage} {
		for kind, err := range offer(new(server.Server), key) {
			if err != nil {
				t.Errorf("a %s with %q: %v", kind, key, err)
			}
		}
	}
	// A program that supports an official extension may use its keys, but not those of the core.
	s := new(server.Server)
	server.AddExtension(s, server.Extension{ID: "io.modelcontextprotocol/ui"})
	for kind, err := range offer(s, "io.modelcontextprotocol/ui") {
		if err != nil {
			t.Errorf("a %s: %v", kind, err)
		}
	}
	for kind, err := range offer(s, mcp.MetaServerInfo) {
		if err == nil {
			t.Errorf("a %s took the core's key", kind)
		}
	}
}

// Rule J11: results with reserved keys are errors; requests of clients with such keys are served.
func TestMetaKeysOfResultsAreChecked(t *testing.T) {
	var key string
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "x"}, func(context.Context, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, ResultBase: mcp.ResultBase{Meta: mcp.Meta{key: json.RawMessage("1")}}}, nil
	})
	l := connectLine(t, s)
	for _, key = range []string{"-x", "dev.mcp/x"} {
		l.wantError(mcp.MethodCallTool, `"name":"x"`, jsonrpc.CodeInternalError, "internal error")
	}
	key = "com.example/x"
	l.Send(strings.Replace(request(1, mcp.MethodCallTool, `"name":"x"`), `"_meta":{`, `"_meta":{"-x":1,"dev.mcp/x":2,`, 1))
	if got := l.Receive(); !strings.Contains(got, `"com.example/x":1`) {
		t.Errorf("%s", got)
	}
}
