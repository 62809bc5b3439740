package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// nullable has schemas of all kinds of optional members, in the output as well.
type nullable struct {
	Query string            `json:"query"`
	After *string           `json:"after"`
	Limit int               `json:"limit,omitempty"`
	Tags  []string          `json:"tags,omitempty"`
	Names map[string]string `json:"names,omitzero"`
	Inner *struct {
		Rest []string `json:"rest,omitempty"`
	} `json:"inner"`
}

// output has a nil slice, a nil map and a nil pointer at two levels.
type output struct {
	List  []string          `json:"list"`
	Map   map[string]string `json:"map"`
	Maybe *int              `json:"maybe"`
	Inner []struct {
		List [][]string `json:"list"`
		Map  map[string]map[string]int
	} `json:"inner"`
}

// Some models and clients write null for what they leave out. It is absent in arguments of tools and prompts,
// unless it is required. A value that the schema allows to be null stays.
func TestNullForAnOptionalMemberIsAbsent(t *testing.T) {
	s := quiet()
	server.AddTool(s, mcp.Tool{Name: "typed"}, func(_ context.Context, in nullable) (string, error) {
		raw, err := json.Marshal(in)
		return string(raw), err
	})
	err := s.RegisterTool(mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"a/b":{"type":"integer"},` +
		`"clear":{"type":["string","null"]},"inner":{"type":"object","properties":{"x":{"type":"string"}}}},"required":["query"]}`)},
		func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(s, mcp.Tool{Name: "output"}, func(context.Context, struct{}) (output, error) {
		out := output{}
		out.Inner = append(out.Inner, struct {
			List [][]string `json:"list"`
			Map  map[string]map[string]int
		}{List: [][]string{nil}, Map: map[string]map[string]int{"a": nil}})
		return out, nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "typed"}, func(_ context.Context, in struct {
		Query string  `json:"query"`
		After *string `json:"after"`
	}) (string, error) {
		return fmt.Sprint(in.Query, in.After == nil), nil
	})
	c := mcptest.Dial(t, s)
	for _, tc := range []struct{ tool, arguments, want string }{
		{"typed", `{"query":"x","after":null,"limit":null,"tags":null,"names":null,"inner":{"rest":null}}`, `{"query":"x","after":null,"inner":{}}`},
		{"typed", `{"query":null}`, "arguments/query: expected string, got null"},
		{"raw", `{"query":"x","a/b":null,"clear":null}`, `{"query":"x","clear":null}`},
		{"raw", `{"query":null,"a/b":null}`, "arguments/query: expected string, got nothing; it is required"},
		{"raw", `{"query":"x","inner":{"x":null}}`, "arguments/inner/x: expected string, got null"},
		{"output", `{}`, `{"list":[],"map":{},"inner":[{"list":[[]],"Map":{"a":{}}}]}`},
	} {
		result, err := c.CallTool(t.Context(), tc.tool, json.RawMessage(tc.arguments))
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(*mcp.TextContent).Text; strings.TrimPrefix(text, "invalid arguments: ") != tc.want || result.IsError == (tc.want[0] == '{') {
			t.Errorf("%s %s: %s, want %s", tc.tool, tc.arguments, text, tc.want)
		}
	}
	peer := rawPeer(t, s)
	if e := peer("prompts/get", `{"name":"typed","arguments":{"query":"x","after":null}}`); e != nil {
		t.Error(e)
	}
	if e := peer("prompts/get", `{"name":"typed","arguments":{"query":null}}`); e == nil {
		t.Error("null for a required argument of a prompt is accepted")
	}
}
