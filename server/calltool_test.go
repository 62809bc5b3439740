package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
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
