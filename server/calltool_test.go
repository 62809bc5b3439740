package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// addCaller adds the tool "do", which calls the tool of its argument name.
func addCaller(t *testing.T, s *server.Server, options ...server.Option) {
	t.Helper()
	addCallerNamed(t, s, "do", options...)
}

func addCallerNamed(t *testing.T, s *server.Server, name string, options ...server.Option) {
	t.Helper()
	err := s.RegisterTool(mcp.Tool{
		Name:        name,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"arguments":{}},"required":["name"]}`),
	}, func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		name, _ := jsonrpc.Get(arguments, "name")
		inner, _ := jsonrpc.Get(arguments, "arguments")
		return s.CallTool(ctx, jsonrpc.Unquote(name), inner)
	}, options...)
	must.Do(t, err)
}

func toolNames(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func TestToolsThatAreNotListedCanBeCalled(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{}
		server.AddTool(s, mcp.Tool{Name: "greet"}, greet, listed(false))
		server.AddTool(s, mcp.Tool{Name: "listed"}, greet)
		addCaller(t, s)
		return s
	}, func(t *testing.T, c *client.Client) {
		must.CheckEqual(t, toolNames(t, c), "do listed")
		direct := must.Get(client.CallTool[string](t.Context(), c, "greet", greeting{"Ada"}))(t)
		must.CheckEqual(t, direct, "Hello, Ada!")
		called, err := client.CallTool[string](t.Context(), c, "do",
			map[string]any{"name": "greet", "arguments": greeting{"Ada"}})
		must.Do(t, err)
		must.CheckEqual(t, called, "Hello, Ada!")
	})
}

// The tool that is called decides about arguments, results, errors, scopes and visibility, not the tool that
// calls it.
func TestACalledToolServesTheCall(t *testing.T) {
	s := &server.Server{LocalScopes: []string{"read"}}
	ada := person(t, "ada")
	server.AddTool(s, mcp.Tool{Name: "greet"}, greet)
	server.AddTool(s, mcp.Tool{Name: "granted"}, greet, server.RequireScopes("read"))
	server.AddTool(s, mcp.Tool{Name: "guarded"}, greet, server.RequireScopes("write"))
	server.AddTool(s, mcp.Tool{Name: "hidden"}, greet, server.VisibleTo(func(who principal.Principal, _ string) bool {
		return who == ada
	}))
	server.AddTool(s, mcp.Tool{Name: "protocol"}, func(context.Context, struct{}) (string, error) {
		return "", jsonrpc.Errorf(-1234, "no")
	})
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "unfit", OutputSchema: json.RawMessage(`{"type":"object"}`)}, raw))
	addCaller(t, s)
	l := connectLine(t, s)
	do := func(arguments string) called { return l.callTool(`"name":"do","arguments":` + arguments) }
	for arguments, want := range map[string]string{
		`{"name":"greet","arguments":{"name":"Ada"}}`:   "Hello, Ada!",
		`{"name":"granted","arguments":{"name":"Ada"}}`: "Hello, Ada!",
		`{"name":"greet","arguments":{"nam":"Ada"}}`:    "invalid arguments: ",
		`{"name":"greet"}`:                             "invalid arguments: ",
		`{"name":"greet","arguments":[]}`:              `the arguments of tool "greet" must be an object`,
		`{"nam":"greet"}`:                              "invalid arguments: ",
		`{"name":"hidden","arguments":{"name":"Ada"}}`: `unknown tool: "hidden"`,
		`{"name":"do","arguments":{"name":"greet"}}`:   "cannot call itself",
		`{"name":"unfit"}`:                             "does not match its output schema",
	} {
		got := do(arguments)
		must.CheckThat(t, strings.Contains(got.text, want) && got.failed != strings.HasPrefix(want, "Hello"),
			"%s: %+v, want %s", arguments, got, want)
	}
	l.wantError(mcp.MethodCallTool, `"name":"do","arguments":{"name":"protocol"}`, -1234, "no")
	l.wantError(mcp.MethodCallTool, `"name":"do","arguments":{"name":"guarded","arguments":{"name":"Ada"}}`,
		jsonrpc.CodeInvalidRequest, "insufficient scope")
	got := connectLineAs(t, s,
		ada).callTool(`"name":"do","arguments":{"name":"hidden","arguments":{"name":"Ada"}}`)
	must.CheckThat(t, !got.failed, "for Ada: %+v", got)
}

func TestACalledToolRunsInTheTaskOfItsCaller(t *testing.T) {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "greet"}, greet)
	addCaller(t, s, server.AsTask(server.TaskOptions{}))
	c := mcptest.Dial(t, s)
	task := must.Get(c.StartTool(t.Context(), "do", map[string]any{"name": "greet", "arguments": greeting{"Ada"}}))(t)
	result := must.Get(task.Wait(t.Context()))(t)
	must.CheckEqual(t, fmt.Sprint(result.Content[0]), fmt.Sprint(mcp.Text("Hello, Ada!")), result)
}

// Questions of the called tool reach the client of the call.
func TestACalledToolAsksTheClient(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{}
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			in, err := server.Elicit[greeting](ctx, "Who?")
			if errors.Is(err, errors.ErrUnsupported) {
				return "Ada", nil
			}
			return in.Name, err
		})
		for name, options := range map[string][]server.Option{"do": nil, "parked": {server.Parked()}} {
			addCallerNamed(t, s, name, options...)
		}
		return s
	}, func(t *testing.T, c *client.Client) {
		for _, name := range []string{"do", "parked"} {
			must.CheckEqual(t,
				must.Get(client.CallTool[string](t.Context(), c, name, map[string]any{"name": "ask"}))(t), "Ada", name)
		}
	}, func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
		}
	})
}

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

// A result of another server that has not been decoded is complete in a task, too.
func TestForwardedResultsAreCompleteInTasks(t *testing.T) {
	const members = `"content":[{"type":"text","text":"a"}],"x":1.50`
	const withoutTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, parked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &server.Server{}
			options := []server.Option{server.Forwarded(nil), server.AsTask(server.TaskOptions{})}
			if parked {
				options = append(options, server.Parked())
			}
			err := s.RegisterTool(mcp.Tool{Name: "t"}, func(ctx context.Context, _ json.RawMessage) (*mcp.CallToolResult, error) {
				if err := server.Detach(ctx); err != nil && parked {
					t.Log(err) // the client does not support tasks
				}
				return &mcp.CallToolResult{ResultBase: mcp.ResultBase{
					Source: []byte(`{"resultType":"complete",` + members + `}`),
				}}, nil
			}, options...)
			must.Do(t, err)
			w := connect(t, s)
			w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + withoutTasks + `}}`)
			must.CheckContains(t, w.Receive(), members)
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t",` + withTasks + `}}`)
			id := member(t, w.Receive(), "taskId")
			synctest.Wait()
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
			must.CheckContains(t, w.Receive(), `"result":{"resultType":"complete",`+members+`}`)
		})
	}
}
