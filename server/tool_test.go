package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

type greeting struct {
	Name string `json:"name" doc:"who to greet"`
}

func greet(_ context.Context, in greeting) (string, error) { return "Hello, " + in.Name + "!", nil }

// raw is a handler that returns its arguments.
func raw(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
}

func TestAddToolPanicsWithTheReason(t *testing.T) {
	text := func(context.Context, struct{}) (string, error) { return "", nil }
	long := strings.Repeat("x", 129)
	for _, test := range []struct {
		name string
		add  func(s *server.Server)
		want string
	}{
		{"must have a name", func(s *server.Server) { server.AddTool(s, mcp.Tool{}, text) }, "1 to 128"},
		{"a long name", func(s *server.Server) { server.AddTool(s, mcp.Tool{Name: long}, text) }, "1 to 128"},
		{"a space", func(s *server.Server) { server.AddTool(s, mcp.Tool{Name: "a b"}, text) }, `not ' '`},
		{"a name that is taken", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, text)
			server.AddTool(s, mcp.Tool{Name: "a"}, text)
		}, "in use"},
		{"no handler", func(s *server.Server) {
			server.AddTool[struct{}, string](s, mcp.Tool{Name: "a"}, nil)
		}, "handler must not be nil"},
		{"a text as input", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, string) (string, error) { return "", nil })
		}, "must be a struct or a map with string keys, not string"},
		{"a misspelt tag of the input", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct {
				C string `minLenght:"2"`
			}) (string, error) {
				return "", nil
			})
		}, `.C: the tag minLenght has no effect; use minLength:"2"`},
		{"a function in the output", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (struct{ F func() }, error) {
				return struct{ F func() }{}, nil
			})
		}, "func"},
		{"a channel as output", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (chan int, error) { return nil, nil })
		}, "chan int has no JSON form"},
		{"channels as output", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) ([]struct{ C chan int }, error) {
				return nil, nil
			})
		}, "[].C: the type chan int has no JSON form"},
		{"an input schema that is none", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":7}`)}, text)
		}, "input schema"},
		{"an input schema of no object", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"string"}`)}, text)
		}, "object"},
		{"an output schema for a text", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a", OutputSchema: json.RawMessage(`{"type":"object"}`)}, text)
		}, "must return a struct"},
		{"an output schema that is none", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a", OutputSchema: json.RawMessage(`7`)},
				func(context.Context, struct{}) (*mcp.CallToolResult, error) { return nil, nil })
		}, "output"},
		{"metadata that is not JSON", func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "a", Meta: mcp.Meta{"com.example/a": json.RawMessage("{")}}, text)
		}, "must be JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s server.Server
			got := panicOf(func() { test.add(&s) })
			must.CheckThat(t, strings.HasPrefix(got, "server: tool ") && strings.Contains(got, test.want),
				"panicked with %q, want %q in it", got, test.want)
			l := connectLine(t, &s) // the server still works
			_, err := l.ask(mcp.MethodListTools, "")
			must.CheckThat(t, err == nil || err.Code == jsonrpc.CodeMethodNotFound, "tools/list: %v", err)
		})
	}
}

func TestRegisterToolReturnsTheReason(t *testing.T) {
	for name, test := range map[string]struct {
		tool    mcp.Tool
		handler func(context.Context, json.RawMessage) (*mcp.CallToolResult, error)
		want    string
	}{
		"must have a name":     {mcp.Tool{}, raw, "1 to 128"},
		"a name that is taken": {mcp.Tool{Name: "taken"}, raw, "in use"},
		"no handler":           {mcp.Tool{Name: "a"}, nil, "handler must not be nil"},
		"an external reference": {mcp.Tool{Name: "a",
			InputSchema: json.RawMessage(`{"type":"object","$ref":"https://example.com/s"}`)}, raw, "input schema"},
		"an output schema of a text": {mcp.Tool{Name: "a", OutputSchema: json.RawMessage(`"x"`)}, raw, "output schema"},
	} {
		var s server.Server
		must.Do(t, s.RegisterTool(mcp.Tool{Name: "taken"}, raw))
		err := s.RegisterTool(test.tool, test.handler)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), test.want) &&
			strings.Contains(err.Error(), fmt.Sprintf("%q", test.tool.Name)), "%s: %v, want %q", name, err, test.want)
		must.CheckThat(t, !s.RemoveTool("a"), "%s: the tool is offered", name)
	}
}

func TestEveryKindOfResultIsEncoded(t *testing.T) {
	type point struct {
		X int64 `json:"x"`
		Y int64 `json:"y,omitzero"`
	}
	var s server.Server
	tool := func(name string) mcp.Tool { return mcp.Tool{Name: name} }
	server.AddTool(&s, tool("string"), func(context.Context, struct{}) (string, error) { return "a\x00\"\xff\n", nil })
	server.AddTool(&s, tool("struct"), func(context.Context, struct{}) (point, error) {
		return point{X: 9007199254740993}, nil
	})
	server.AddTool(&s, tool("pointer"), func(context.Context, struct{}) (*point, error) { return &point{X: 1}, nil })
	server.AddTool(&s, tool("nil"), func(context.Context, struct{}) (*point, error) { return nil, nil })
	server.AddTool(&s, tool("map"), func(context.Context, struct{}) (map[string]int, error) {
		return map[string]int{"b": 2, "a": 1}, nil
	})
	server.AddTool(&s, tool("nilmap"), func(context.Context, struct{}) (map[string]int, error) { return nil, nil })
	server.AddTool(&s, tool("blocks"), func(context.Context, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Text("a"), mcp.Image([]byte{1}, "image/png"), mcp.Text("b")}, nil
	})
	server.AddTool(&s, tool("noblocks"), func(context.Context, struct{}) ([]mcp.Content, error) { return nil, nil })
	server.AddTool(&s, tool("result"), func(context.Context, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{mcp.Text("no")}}, nil
	})
	server.AddTool(&s, tool("noresult"), func(context.Context, struct{}) (*mcp.CallToolResult, error) {
		return nil, nil
	})
	server.AddTool(&s, tool("number"), func(context.Context, struct{}) (int64, error) { return 9007199254740993, nil })
	server.AddTool(&s, tool("list"), func(context.Context, struct{}) ([]string, error) { return []string{"a"}, nil })
	server.AddTool(&s, tool("time"), func(context.Context, struct{}) (time.Time, error) {
		return time.Unix(0, 0).UTC(), nil
	})
	server.AddTool(&s, tool("anything"), func(context.Context, struct{}) (any, error) {
		return map[string]any{"a": nil}, nil
	})
	server.AddTool(&s, tool("error"), func(context.Context, struct{}) (point, error) {
		return point{}, errors.New("no such point")
	})
	l := connectLine(t, &s)
	for name, want := range map[string]called{
		"string":   {text: "a\x00\"\uFFFD\n"},
		"struct":   {text: `{"x":9007199254740993}`, structured: `{"x":9007199254740993}`},
		"pointer":  {text: `{"x":1}`, structured: `{"x":1}`},
		"nil":      {text: "the tool returned no result", failed: true},
		"map":      {text: `{"a":1,"b":2}`, structured: `{"a":1,"b":2}`},
		"nilmap":   {text: `{}`, structured: `{}`},
		"blocks":   {text: "ab"},
		"noblocks": {},
		"result":   {text: "no", failed: true},
		"noresult": {text: "the tool returned no result", failed: true},
		"number":   {text: "9007199254740993", structured: `9007199254740993`},
		"list":     {text: `["a"]`, structured: `["a"]`},
		"time":     {text: `"1970-01-01T00:00:00Z"`},
		"anything": {text: `{"a":null}`},
		"error":    {text: "no such point", failed: true},
	} {
		must.CheckEqual(t, l.callTool(fmt.Sprintf(`"name":%q`, name)), want, name)
	}
}

// Arrays, numbers and booleans arrive as values of their types in every revision, in an object where structured content
// must be one, and not as texts only.
func TestValuesThatAreNoObjectsAreStructured(t *testing.T) {
	s := &server.Server{Name: "s", Version: "1"}
	tree := json.RawMessage(`{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`)
	server.AddTool(s, mcp.Tool{Name: "list", OutputSchema: tree},
		func(context.Context, struct{}) ([]int, error) { return []int{1, 2}, nil })
	server.AddTool(s, mcp.Tool{Name: "empty"}, func(context.Context, struct{}) ([]greeting, error) { return nil, nil })
	server.AddTool(s, mcp.Tool{Name: "number"}, func(context.Context, struct{}) (float64, error) { return 1.5, nil })
	server.AddTool(s, mcp.Tool{Name: "yes"}, func(context.Context, struct{}) (*bool, error) { return new(true), nil })
	server.AddTool(s, mcp.Tool{Name: "text"}, func(context.Context, struct{}) (string, error) { return "[1]", nil })
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		for tool, err := range c.Tools(t.Context()) { // with the output schemas that results must match
			must.Do(t, err)
			has := r >= mcp.V20250618 && tool.Name != "text"
			must.CheckEqual(t, tool.OutputSchema != nil, has, r, tool.Name)
		}
		for name, raw := range map[string]string{"list": `[1,2]`, "empty": `[]`, "number": `1.5`, "yes": `true`} {
			result := must.Get(c.CallTool(t.Context(), name, nil))(t)
			must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, raw, r, name)
			switch {
			case r < mcp.V20250618:
				raw = ""
			case r < mcp.V20260728:
				raw = `{"result":` + raw + `}`
			}
			must.CheckEqual(t, string(result.StructuredContent), raw, r, name)
		}
		must.CheckEqual(t, slices.Equal(must.Get(client.CallTool[[]int](t.Context(), c, "list", nil))(t), []int{1, 2}),
			true, r)
		must.CheckEqual(t, len(must.Get(client.CallTool[[]greeting](t.Context(), c, "empty", nil))(t)), 0, r)
		must.CheckEqual(t, must.Get(client.CallTool[float64](t.Context(), c, "number", nil))(t), 1.5, r)
		must.CheckEqual(t, must.Get(client.CallTool[bool](t.Context(), c, "yes", nil))(t), true, r)
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "text", nil))(t), "[1]", r)
	}
}

// Definitions of tools have the output schema of structured content.
// Some models reject a schema without properties.
func TestToolWithoutASchemaHasOneWithProperties(t *testing.T) {
	var s server.Server
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "a"},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return new(mcp.CallToolResult), nil
		}))
	must.CheckEqual(t, string(list(t, connectLine(t, &s))["a"].InputSchema), `{"type":"object","properties":{}}`)
}

func TestOutputSchemasAreInferredForStructuredContentOnly(t *testing.T) {
	var s server.Server
	server.AddTool(&s, mcp.Tool{Name: "struct"}, func(context.Context, struct{}) (struct {
		A int `json:"a"`
	}, error) {
		return struct {
			A int `json:"a"`
		}{}, nil
	})
	server.AddTool(&s, mcp.Tool{Name: "time"}, func(context.Context, struct{}) (time.Time, error) {
		return time.Time{}, nil
	})
	server.AddTool(&s, mcp.Tool{Name: "text"}, greet)
	own := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)
	server.AddTool(&s, mcp.Tool{Name: "own", OutputSchema: own},
		func(context.Context, struct{}) (map[string]int, error) { return nil, nil })
	for name, tool := range list(t, connectLine(t, &s)) {
		switch has := tool.OutputSchema != nil; {
		case has != (name == "struct" || name == "own"):
			t.Errorf("%s has the output schema %s", name, tool.OutputSchema)
		case name == "own" && !bytes.Equal(tool.OutputSchema, own):
			t.Errorf("the output schema became %s", tool.OutputSchema)
		}
	}
}

// list returns all tools by name.
func list(t *testing.T, l *line) map[string]mcp.Tool {
	t.Helper()
	raw, err := l.ask(mcp.MethodListTools, "")
	must.That(t, err == nil, "%v", err)
	var page mcp.ListToolsResult
	must.Do(t, json.Unmarshal(raw, &page))
	all := make(map[string]mcp.Tool)
	for _, tool := range page.Tools {
		all[tool.Name] = tool
	}
	return all
}

// Rule V6: structured content matches its schema, or the call fails.
func TestResultsMustMatchTheOutputSchema(t *testing.T) {
	var log bytes.Buffer
	s := server.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	results := map[string]*mcp.CallToolResult{
		"fits":     {StructuredContent: json.RawMessage(`{"n":1}`)},
		"unfit":    {StructuredContent: json.RawMessage(`{"n":"hunter2"}`)},
		"absent":   {Content: []mcp.Content{mcp.Text("n is 1")}},
		"no JSON":  {StructuredContent: json.RawMessage(`{"n":1`)},
		"an error": {IsError: true, Content: []mcp.Content{mcp.Text("out of n")}},
	}
	for name, result := range results {
		must.Do(t, s.RegisterTool(mcp.Tool{Name: strings.ReplaceAll(name, " ", "_"), OutputSchema: schema},
			func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return result, nil }))
	}
	l := connectLine(t, &s)
	const failed = "the tool failed: its result does not match its output schema"
	for name, want := range map[string]called{
		"fits": {structured: `{"n":1}`}, "unfit": {text: failed, failed: true}, "absent": {text: failed, failed: true},
		"no_JSON": {text: failed, failed: true}, "an_error": {text: "out of n", failed: true},
	} {
		must.CheckEqual(t, l.callTool(fmt.Sprintf(`"name":%q`, name)), want, name)
	}
	l.Conn.Close()
	_ = l.Served()
	must.CheckContains(t, log.String(), "output schema", &log)
}

// Invalid arguments are reported to the model, malformed requests to the client.
func TestArgumentsAreValidated(t *testing.T) {
	var s server.Server
	server.AddTool(&s, mcp.Tool{Name: "greet"}, greet)
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "raw"}, raw))
	l := connectLine(t, &s)
	for params, want := range map[string]called{
		`"name":"greet","arguments":{"name":"Ada"}`: {text: "Hello, Ada!"},
		`"name":"raw"`:                                 {text: `{}`},
		`"name":"raw","arguments":{}`:                  {text: `{}`},
		`"name":"raw","arguments":{ "b": 1.50, "a":1}`: {text: `{ "b": 1.50, "a":1}`},
		// The names of arguments may differ in case only.
		`"name":"raw","arguments":{"Name":1,"name":2,"ARGUMENTS":3}`: {text: `{"Name":1,"name":2,"ARGUMENTS":3}`},
		`"\u006eame":"raw"`: {text: `{}`},
		`"name":"r\u0061w"`: {text: `{}`},
	} {
		must.CheckEqual(t, l.callTool(params), want, params)
	}
	for _, arguments := range []string{`{}`, `{"name":7}`, `{"Name":"Ada"}`, `{"name":"Ada","more":1}`} {
		got := l.callTool(`"name":"greet","arguments":` + arguments)
		must.CheckThat(t, got.failed && strings.HasPrefix(got.text, "invalid arguments: "), "%s: %+v", arguments, got)
	}
	for params, words := range map[string]string{
		`"name":"greet","arguments":[]`:      "arguments must be an object",
		`"name":"greet","arguments":"{}"`:    "arguments must be an object",
		``:                                   "name must be a string",
		`"name":7`:                           "name must be a string",
		`"name":null`:                        "name must be a string",
		`"name":"unknown"`:                   "unknown tool",
		`"name":""`:                          "unknown tool",
		`"name":"Greet"`:                     "unknown tool",
		`"Name":"greet"`:                     `must be written "name"`,
		`"name":"greet","Arguments":{}`:      `must be written "arguments"`,
		`"name":"greet","_META":{}`:          `must be written "_meta"`,
		`"name":"greet","inputreſponſes":{}`: `must be written "inputResponses"`, // folds to a known name
	} {
		l.wantError(mcp.MethodCallTool, params, jsonrpc.CodeInvalidParams, words)
	}
	long := strings.Repeat("x", 100_000)
	if _, err := l.ask(mcp.MethodCallTool, `"name":"`+long+`"`); err == nil || len(err.Message) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Message))
	}
}

// A definition must not change while clients list it.
func TestDefinitionsAreCopied(t *testing.T) {
	var s server.Server
	tool := mcp.Tool{
		Name: "a", Description: "<b> & \u2028",
		InputSchema: json.RawMessage("{\n\"type\": \"object\",\"description\":\"<&>\"}"),
		Annotations: &mcp.ToolAnnotations{Title: "before"},
		Meta:        mcp.Meta{"com.example/a": json.RawMessage(`1`)},
		Icons:       []mcp.Icon{{Src: "https://example.com/before.png"}},
	}
	must.Do(t, s.RegisterTool(tool, raw))
	copy(tool.InputSchema, `{"hunter2"     `)
	tool.Annotations.Title = "after"
	tool.Meta["com.example/a"][0] = '2'
	tool.Icons[0].Src = "https://example.com/after.png"
	got := list(t, connectLine(t, &s))["a"]
	must.CheckThat(t, string(got.InputSchema) == `{"type":"object","description":"<&>"}` &&
		got.Annotations.Title == "before" && string(got.Meta["com.example/a"]) == "1" &&
		got.Icons[0].Src == "https://example.com/before.png" && got.Description == "<b> & \u2028",
		"the tool became %+v", got)
}

func TestAToolCanBeRemovedWhileItRuns(t *testing.T) {
	var s server.Server
	started, proceed := make(chan struct{}), make(chan struct{})
	server.AddTool(&s, mcp.Tool{Name: "slow"}, func(context.Context, struct{}) (string, error) {
		close(started)
		<-proceed
		return "done", nil
	})
	l := connectLine(t, &s)
	l.Send(request(7, mcp.MethodCallTool, `"name":"slow"`))
	<-started
	must.CheckThat(t, s.RemoveTool("slow") && !s.RemoveTool("slow"), "it was not removed once")
	l.wantError(mcp.MethodCallTool, `"name":"slow"`, jsonrpc.CodeInvalidParams, "unknown tool")
	must.CheckEqual(t, len(list(t, l)), 0)
	close(proceed)
	got := l.Receive()
	must.CheckThat(t, strings.Contains(got, `"id":7`) && strings.Contains(got, "done"), "got %s", got)
	server.AddTool(&s, mcp.Tool{Name: "slow"}, greet) // the name can be used again
}

// For the race detector: all functions that are safe while serving.
func TestToolsCanChangeWhileServing(t *testing.T) {
	s := &server.Server{Limits: server.Limits{PageSize: 3}}
	server.AddTool(s, mcp.Tool{Name: "stays"}, greet)
	c := mcptest.Dial(t, s)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 30 {
				name := fmt.Sprintf("t%d_%d", i, j%5)
				server.AddTool(s, mcp.Tool{Name: name}, greet)
				s.Declare(mcp.MethodCallTool)
				text, err := client.CallTool[string](t.Context(), c, "stays", greeting{"Ada"})
				must.CheckThat(t, err == nil && text == "Hello, Ada!", "%q, %v", text, err)
				seen := false
				for tool, err := range c.Tools(t.Context()) {
					if err != nil {
						t.Error(err)
						return
					}
					seen = seen || tool.Name == "stays"
				}
				must.CheckThat(t, seen, "a tool that stays was not listed")
				must.CheckThat(t, s.RemoveTool(name), "%s was not there", name)
			}
		})
	}
	wg.Wait()
}

// The server that serves a tool logs what it cannot check, whether the tool was added before or afterwards.
func TestKeywordsThatCannotBeCheckedAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := &server.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	schema := json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","pattern":"^(?!b)"}}}`)
	for _, name := range []string{"a", "b"} {
		must.Do(t, errors.Join(s.RegisterTool(mcp.Tool{Name: name, InputSchema: schema}, raw), s.Check()))
		n := strings.Count(log.String(), "/properties/x/pattern")
		must.CheckThat(t, n == 1 && strings.Contains(log.String(), "tool="+name),
			"%d lines about %s: %s", n, name, log.String())
		log.Reset()
	}
	l := connectLine(t, s)
	got := l.callTool(`"name":"a","arguments":{"x":"b"}`)
	must.CheckThat(t, !got.failed, "the keyword rejects a value: %+v", got)
	if got := l.callTool(`"name":"a","arguments":{"x":1}`); !got.failed {
		t.Errorf("the other keywords are not checked: %+v", got)
	}
}

func marked(parameter, header, more string) mcp.Tool {
	return mcp.Tool{Name: "t", InputSchema: json.RawMessage(fmt.Sprintf(
		`{"type":"object","properties":{%q:{"type":"string","x-mcp-header":%q%s},"other token":{"type":"string"}}}`,
		parameter, header, more))}
}

// Rule T24: a parameter that looks like a secret is not mirrored into a header.
func TestSecretsAreNotMirroredInHeaders(t *testing.T) {
	for _, name := range []string{
		"token", "access_token", "accessToken", "accesstoken", "AccessTOKEN", "APIKey", "api-key", "apikey", "api.key",
		"key", "password", "userPassword",
		"passwd", "client_secret", "secret2", "2secret", "credentials", "Authorization", "session-cookie", "pin", "otp",
		"jwt",
	} {
		s := new(server.Server)
		err := s.RegisterTool(marked(name, "X", ""), raw)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), "secret") &&
			strings.Contains(err.Error(), `server.NotSecret("X")`), "%s: %v", name, err)
		must.Check(t, s.RegisterTool(marked(name, "X", ""), raw, server.NotSecret("x")), name, "which is no secret")
		if strings.ContainsAny(name, ".") {
			continue // not a valid header name
		}
		if err := new(server.Server).RegisterTool(marked("x", name, ""), raw); err == nil {
			t.Errorf("the header %s was taken", name)
		}
	}
	for _, name := range []string{"region", "tenant", "keyboard", "tokenizer", "monkey", "author", "secretary",
		"opinion", "hockey"} {
		must.Check(t, new(server.Server).RegisterTool(marked(name, "X", ""), raw), name)
	}
}

// Rule T24: a parameter that its schema marks as secret is a secret, whatever its name.
func TestWriteOnlyParametersAreNotMirroredInHeaders(t *testing.T) {
	for more, want := range map[string]string{`,"writeOnly":true`: "writeOnly", `,"format":"password"`: "password"} {
		must.CheckFails(t, new(server.Server).RegisterTool(marked("region", "Region", more), raw), want, more)
	}
	must.Check(t, new(server.Server).RegisterTool(marked("region", "Region", `,"writeOnly":false,"format":"hostname"`),
		raw))
}

// Rule T24: a typed tool panics with the reason, and a NotSecret without effect is an error.
func TestASecretInATypedToolPanics(t *testing.T) {
	defer func() {
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "looks like the name of a secret") {
			t.Errorf("panic: %v", v)
		}
	}()
	err := new(server.Server).RegisterTool(marked("region", "Region", ""), raw, server.NotSecret("Other"))
	must.CheckThat(t, err != nil, "an exception for no parameter was taken")
	server.AddTool(new(server.Server), marked("token2", "Token", ""),
		func(context.Context, map[string]any) (string, error) { return "", nil })
}

// Each validation takes time in proportion to the arguments, so their number must not grow with the nulls.
func TestNullsAreRemovedInAFewPasses(t *testing.T) {
	for name, test := range map[string]struct {
		schema, before string
		unknown, valid bool
		want           string
	}{
		"of unknown members": {`{"additionalProperties":false,"properties":{"a":{"type":"string"}}}`, `"a":"x"`, true, true,
			`{"a":"x"}`},
		"of additional members": {`{"additionalProperties":{"type":"string"}}`, `"a":"x"`, false, true, `{"a":"x"}`},
		"beside a required one": {`{"required":["a"],"properties":{"a":{"type":["string","null"]}},` +
			`"additionalProperties":{"type":"string"}}`, `"a":null`, false, true, `{"a":null}`},
		"beside another fault": {`{"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}`, `"a":7`,
			false, false, ""},
	} {
		for _, nulls := range []int{1, 20, 5000} {
			object := []byte("{" + test.before)
			for i := range nulls {
				object = fmt.Appendf(object, `,"n%d":null`, i)
			}
			s := must.Get(schema.Compile([]byte(test.schema)))(t)
			passes := 0
			got, err := server.RemoveNulls(s, func(raw []byte) error {
				passes++
				return s.Validate(raw)
			}, append(object, '}'), test.unknown)
			must.CheckThat(t, (err == nil) == test.valid && string(got) == test.want && passes <= 5,
				"%d nulls %s: %s, %v after %d passes", nulls, name, got, err, passes)
		}
	}
}
