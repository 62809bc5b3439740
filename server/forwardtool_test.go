package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

func TestForwardedToolsAreNotRejectedForTheirSchemas(t *testing.T) {
	s := new(server.Server)
	handler := func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("done")}}, nil
	}
	invalid := json.RawMessage(`{"type":"object","properties":7}`)
	tool := mcp.Tool{Name: "t", InputSchema: invalid, OutputSchema: invalid}
	err := s.RegisterTool(tool, handler)
	must.CheckThat(t, err != nil, "RegisterTool accepts an invalid schema")
	must.Do(t, s.RegisterTool(tool, handler, server.Forwarded(nil)))
	c := mcptest.Dial(t, s)
	for listed, err := range c.Tools(t.Context()) {
		must.CheckThat(t, err == nil && string(listed.InputSchema) == string(invalid) &&
			string(listed.OutputSchema) == string(invalid), "the tool is %+v, %v", listed, err)
	}
	for name, tool := range map[string]mcp.Tool{"a name in use": tool, "an invalid name": {Name: "a b"}} {
		err := s.RegisterTool(tool, handler, server.Forwarded(nil))
		must.CheckThat(t, err != nil, "ForwardTool accepts %s", name)
	}
	if err := s.RegisterTool(mcp.Tool{Name: "u"}, nil, server.Forwarded(nil)); err == nil {
		t.Error("ForwardTool accepts a nil handler")
	}
}

func TestCompletionsHaveAtMostAHundredValues(t *testing.T) {
	s := new(server.Server)
	ref := mcp.CompleteReference{Type: mcp.RefPrompt, Name: "p"}
	var values []string
	for i := range 150 {
		values = append(values, fmt.Sprint(i))
	}
	total := int64(4711)
	returned := &mcp.Completion{Values: values, Total: &total}
	server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(_ context.Context, in struct{ A string }) (string, error) {
		return in.A, nil
	}, server.Complete("A", func(context.Context, string, map[string]string) (*mcp.Completion, error) {
		return returned, nil
	}))
	c := mcptest.Dial(t, s)
	complete := func() *mcp.Completion {
		t.Helper()
		got, err := c.Complete(t.Context(), mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: "A"}})
		must.Do(t, err)
		return got
	}
	if got := complete(); len(got.Values) != mcp.MaxCompletionValues || *got.Total != total || !got.HasMore ||
		len(returned.Values) != 150 || returned.HasMore {
		t.Errorf("%d values of %d, more: %v", len(got.Values), *got.Total, got.HasMore)
	}
	returned.Total = nil
	if got := complete(); *got.Total != 150 || returned.Total != nil {
		t.Errorf("%d values in all", *got.Total)
	}
	returned = nil
	must.CheckEqual(t, len(complete().Values), 0, "a nil completion has values")
}

func TestInstructionsCanChangeWhileTheServerServes(t *testing.T) {
	s := &server.Server{}
	var text atomic.Value
	s.InstructionsFor = func(principal.Principal) string { return text.Load().(string) }
	for _, want := range []string{"before", "after", ""} {
		text.Store(want)
		for _, revision := range mcp.Revisions() {
			must.CheckEqual(t, mcptest.Dial(t, s, mcptest.WithRevision(revision)).Server().Instructions, want, revision)
		}
	}
}

// Instructions for a caller are not for others, such as the users of a cache.
func TestInstructionsOfCallersAreCachedPrivately(t *testing.T) {
	s := &server.Server{ListCache: server.CachePolicy{Public: true}}
	for _, want := range []mcp.CacheScope{mcp.CacheScopePublic, mcp.CacheScopePrivate} {
		raw, rejected := connectLineAs(t, s, person(t, "ada")).ask(mcp.MethodDiscover, "")
		if scope, _ := jsonrpc.Get(raw, "cacheScope"); rejected != nil || mcp.CacheScope(jsonrpc.Unquote(scope)) != want {
			t.Errorf("%s, %v, want %s", raw, rejected, want)
		}
		s = &server.Server{ListCache: s.ListCache, InstructionsFor: principal.Principal.Key}
	}
}

// The other server may accept null for an argument that its schema does not require.
func TestForwardedToolsDecideAboutNull(t *testing.T) {
	s := &server.Server{Name: "s"}
	tool := mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string"},"after":{"type":"string"}},"additionalProperties":false}`)}
	err := s.RegisterTool(tool, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	}, server.Forwarded(nil))
	must.Do(t, err)
	c := mcptest.Dial(t, s)
	for arguments, want := range map[string]bool{
		`{"query":"x","after":null}`: true, `{"after":null,"query":"x","other":null}`: true,
		`{"query":null}`: false, `{"after":null}`: false, `{"query":"x","after":7}`: false,
		`{"query":7,"after":null}`: false, `{"query":"x","after":[null]}`: false,
		`{"query":"x","other":1,"after":null}`: false,
	} {
		text, err := client.CallTool[string](t.Context(), c, "t", json.RawMessage(arguments))
		must.CheckThat(t, (err == nil) == want && (!want || text == arguments), "%s: %q, %v", arguments, text, err)
	}
}

// hostileSchema returns a few kilobytes that need almost 2 MB when they are compiled.
func hostileSchema(n int) json.RawMessage {
	patterns := make([]string, 30)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`"^%d\\pL{900}$":{}`, n*100+i)
	}
	return json.RawMessage(`{"type":"object","patternProperties":{` + strings.Join(patterns, ",") +
		`},"additionalProperties":false}`)
}

// Rule V4.
func TestSchemasOfForwardedToolsTakeBoundedMemory(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	handler := func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return new(mcp.CallToolResult), nil
	}
	for name, options := range map[string][]server.Option{
		"of a catalog": {server.Forwarded(nil)}, "of a server": {server.Forwarded(new(schema.Budget))},
	} {
		s := &server.Server{Logger: logger}
		must.Do(t, s.Check())
		register := func(n int) (unvalidated bool) {
			log.Reset()
			must.Do(t, s.RegisterTool(mcp.Tool{Name: fmt.Sprint("t", n), InputSchema: hostileSchema(n)}, handler,
				options...))
			return strings.Contains(log.String(), "all schemas of one peer")
		}
		n := 0
		for ; !register(n); n++ {
			must.That(t, n <= 60, "%s: memory is not bounded", name)
		}
		if s.RemoveTool("t0"); register(0) {
			t.Errorf("%s: the memory of a removed tool is not given back", name)
		}
		must.CheckThat(t, register(n+1), "%s: the budget is larger after a removal", name)
		// Another server has its own budget.
		options = []server.Option{server.Forwarded(new(schema.Budget))}
		must.CheckThat(t, !register(n+2), "%s: servers share a budget", name)
	}
}

// Some models write arrays and objects as strings that contain their JSON.
func TestArraysAndObjectsInStringsAreReadByEveryKindOfTool(t *testing.T) {
	s := new(server.Server)
	input := json.RawMessage(`{"type":"object","properties":{"tags":{"anyOf":[{"type":"array"},{"type":"null"}]},` +
		`"note":{"type":"string"},"name":{"type":"string"},"arguments":{"type":"object"}}}`)
	echo := func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	}
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "untyped", InputSchema: input}, echo))
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "forwarded", InputSchema: input}, echo, server.Forwarded(nil)))
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "caller", InputSchema: input},
		func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			own, _ := jsonrpc.Get(arguments, "arguments")
			return s.CallTool(ctx, "untyped", own)
		}))
	server.AddTool(s, mcp.Tool{Name: "typed"}, func(_ context.Context, in struct {
		Tags []string `json:"tags"`
		Note *string  `json:"note"`
	}) (string, error) {
		return fmt.Sprint(in.Tags, in.Note == nil), nil
	})
	c := mcptest.Dial(t, s)
	for _, test := range []struct{ tool, arguments, want string }{
		{"untyped", `{"tags":"[\"a\"]","note":"[1]"}`, `{"tags":["a"],"note":"[1]"}`},
		{"untyped", `{"tags":"[\"a\"]","note":null}`, `{"tags":["a"]}`},
		{"untyped", `{"tags":"a"}`, `invalid arguments: arguments/tags: expected array or null, got string "a"`},
		{"forwarded", `{"tags":"[\"a\"]","note":null}`, `{"tags":["a"],"note":null}`},
		{"caller", `{"name":"x","arguments":"{\"tags\":\"[1]\"}"}`, `{"tags":[1]}`},
		{"typed", `{"tags":"[\"a\"]","note":null}`, `[a] true`},
	} {
		result, err := c.CallTool(t.Context(), test.tool, json.RawMessage(test.arguments))
		if err != nil {
			t.Errorf("%s: %v", test.tool, err)
			continue
		}
		must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, test.want, test.tool, test.arguments)
	}
}
