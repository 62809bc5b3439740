package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
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
	err := s.RegisterTool(mcp.Tool{Name: "raw",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},` +
			`"a/b":{"type":"integer"},` +
			`"clear":{"type":["string","null"]},"inner":{"type":"object","properties":{"x":{"type":"string"}}}},` +
			`"required":["query"]}`)},
		func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
		})
	must.Do(t, err)
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
		{"typed", `{"query":"x","after":null,"limit":null,"tags":null,"names":null,"inner":{"rest":null}}`,
			`{"query":"x","after":null,"inner":{}}`},
		{"typed", `{"query":null}`, "arguments/query: expected string, got null"},
		{"raw", `{"query":"x","a/b":null,"clear":null}`, `{"query":"x","clear":null}`},
		{"raw", `{"query":null,"a/b":null}`, "arguments/query: expected string, got nothing; it is required"},
		{"raw", `{"query":"x","inner":{"x":null}}`, "arguments/inner/x: expected string, got null"},
		{"output", `{}`, `{"list":[],"map":{},"inner":[{"list":[[]],"Map":{"a":{}}}]}`},
	} {
		result := must.Get(c.CallTool(t.Context(), tc.tool, json.RawMessage(tc.arguments)))(t)
		text := result.Content[0].(*mcp.TextContent).Text
		must.CheckThat(t, strings.TrimPrefix(text, "invalid arguments: ") == tc.want &&
			result.IsError != (tc.want[0] == '{'), "%s %s: %s, want %s", tc.tool, tc.arguments, text, tc.want)
	}
	peer := rawPeer(t, s)
	e := peer("prompts/get", `{"name":"typed","arguments":{"query":"x","after":null}}`)
	must.CheckThat(t, e == nil, "%v", e)
	if e := peer("prompts/get", `{"name":"typed","arguments":{"query":null}}`); e == nil {
		t.Error("null for a required argument of a prompt is accepted")
	}
}

var badKeys = []string{"-x", "com..example/x", "a b", "io.modelcontextprotocol/x", "dev.mcp/x", mcp.MetaServerInfo,
	mcp.MetaProgressToken}

// Rule J11: reserved keys in definitions are an error when the program adds the definition.
func TestMetaKeysOfDefinitionsAreChecked(t *testing.T) {
	offer := func(s *server.Server, key string) map[string]error {
		meta := mcp.Meta{key: json.RawMessage("1")}
		none := func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil }
		return map[string]error{
			"tool": s.RegisterTool(mcp.Tool{Name: "x", Meta: meta}, raw),
			"prompt": s.RegisterPrompt(mcp.Prompt{Name: "x", Meta: meta},
				func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }),
			"resource": s.RegisterResource(mcp.Resource{URI: "x://x", Name: "x", Meta: meta}, none),
			"template": s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "x://{x}", Name: "x", Meta: meta}, none),
		}
	}
	for _, key := range badKeys {
		for kind, err := range offer(new(server.Server), key) {
			must.CheckFails(t, err, "_meta", kind, key)
		}
	}
	for _, key := range []string{"x", "com.example/x", "com.example.mcp/x", mcp.MetaTraceParent, mcp.MetaTraceState,
		mcp.MetaBaggage} {
		for kind, err := range offer(new(server.Server), key) {
			must.Check(t, err, kind, key)
		}
	}
	// A program that supports an official extension may use its keys, but not those of the core.
	s := new(server.Server)
	server.AddExtension(s, server.Extension{ID: "io.modelcontextprotocol/ui"})
	for kind, err := range offer(s, "io.modelcontextprotocol/ui") {
		must.Check(t, err, kind)
	}
	for kind, err := range offer(s, mcp.MetaServerInfo) {
		must.CheckThat(t, err != nil, "a %s took the core's key", kind)
	}
}

// Rule J11: results with reserved keys are errors; requests of clients with such keys are served.
func TestMetaKeysOfResultsAreChecked(t *testing.T) {
	var key string
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "x"}, func(context.Context, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{},
			ResultBase: mcp.ResultBase{Meta: mcp.Meta{key: json.RawMessage("1")}}}, nil
	})
	l := connectLine(t, s)
	for _, key = range []string{"-x", "dev.mcp/x"} {
		l.wantError(mcp.MethodCallTool, `"name":"x"`, jsonrpc.CodeInternalError, "internal error")
	}
	key = "com.example/x"
	l.Send(strings.Replace(request(1, mcp.MethodCallTool, `"name":"x"`), `"_meta":{`, `"_meta":{"-x":1,"dev.mcp/x":2,`,
		1))
	must.CheckContains(t, l.Receive(), `"com.example/x":1`)
}

// Rule J18: a changed cursor and a cursor for something else are rejected.
func TestCursorsOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	s := withTools(t, 1, "a", "b")
	foreign := withTools(t, 1, "a", "b")
	l := connectLine(t, s)
	other := must.Get(principal.New("https://issuer.example", "other", ""))(t)
	value := s.CursorFor(mcp.MethodListTools, "a", principal.Local)
	fragments := map[string]string{
		"value":           value,
		"other server":    foreign.CursorFor(mcp.MethodListTools, "a", principal.Local),
		"other purpose":   s.SealState("aa"),
		"other request":   s.CursorFor(mcp.MethodListPrompts, "a", principal.Local),
		"other principal": s.CursorFor(mcp.MethodListTools, "a", other),
	}
	for _, c := range corpus.Sealed(t, value) {
		if c.Want() == "" { // for requestState only
			continue
		}
		result, rejected := l.ask(mcp.MethodListTools, `"cursor":`+string(c.Bytes(t, fragments)))
		got := "accepted"
		if rejected != nil {
			got = "rejected"
		}
		if got != c.Want() || rejected != nil && rejected.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %s: %s, want %s (%s, %v)", c.Place, c.Name, got, c.Want(), result, rejected)
		}
	}
}

// Malformed params are rejected before the prompt is looked up.
func TestMalformedParamsAreRejected(t *testing.T) {
	s := quiet()
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "")
	server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(context.Context, struct {
		Size string `json:"size" enum:"S,M,L"`
	}) (string, error) {
		return "", nil
	})
	peer := rawPeer(t, s)
	for _, tc := range []struct{ method, params, want string }{
		{"resources/list", `{"cursor":"unknown"}`, "invalid cursor"},
		{"resources/list", `{"cursor":7}`, "invalid cursor"},
		{"resources/list", `{"Cursor":"x"}`, "must be written"},
		{"resources/templates/list", `{"cursor":"bm9ib2R5"}`, "invalid cursor"},
		{"resources/read", `{}`, "params.uri must be a string"},
		{"resources/read", `{"URI":"note://a"}`, "must be written"},
		{"prompts/get", `{}`, "params.name must be a string"},
		{"prompts/get", `{"name":"greet","arguments":[]}`, "params.arguments must be an object"},
		{"prompts/get", `{"name":"greet","arguments":{"size":1}}`,
			"invalid arguments: arguments/size: expected string, got 1"},
		{"prompts/get", `{"name":"greet","arguments":{"size":null}}`,
			"arguments/size: expected string, got nothing; it is required"},
		{"prompts/get", `{"name":"greet","arguments":{"size":"XS"}}`,
			`invalid arguments: arguments/size: expected one of "S", "M", "L", got string "XS"`},
		{"prompts/get", `{"name":"greet","Arguments":{}}`, "must be written"},
		{"completion/complete", `{}`, "params.ref.type must be a string"},
		{"completion/complete", `{"ref":"greet"}`, "params.ref must be an object"},
		{"completion/complete", `{"ref":{"type":"ref/tool"},"argument":{"name":"a","value":""}}`,
			"params.ref.type must be"},
		{"completion/complete", `{"ref":{"type":"ref/prompt"}}`, "params.ref.name must be a string"},
		{"completion/complete", `{"ref":{"type":"ref/resource","name":"greet"}}`, "params.ref.uri must be a string"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"}}`, "must have a name and a value"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"size"}}`,
			"must have a name and a value"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","Name":"greet"},"argument":{"name":"size","value":""}}`,
			"must be written"},
		{"completion/complete",
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"size","value":""},"context":[]}`,
			"params.context must be an object"},
		{"completion/complete",
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"size","value":""},` +
				`"context":{"arguments":{"a":1}}}`, "arguments/a: expected string, got 1"},
	} {
		e := peer(tc.method, tc.params)
		must.CheckThat(t, e != nil && e.Code == jsonrpc.CodeInvalidParams && strings.Contains(e.Message, tc.want),
			"%s %s: %v, want %q", tc.method, tc.params, e, tc.want)
	}
}

// Published clients send empty params where the schema has none, and null for no arguments.
func TestEmptyParamsAndNullArgumentsAreAccepted(t *testing.T) {
	s := &server.Server{Name: "s", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (string, error) { return "called", nil })
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "raw", InputSchema: []byte(`{"type":"object"}`)},
		func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("called with " + string(arguments))}}, nil
		}))
	server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, struct {
		X string `json:"x,omitempty"`
	}) (string, error) {
		return "prompt", nil
	})
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
	requests := map[string]string{
		"tools/list": ``, "prompts/list": ``, "resources/list": ``, "resources/templates/list": ``,
		"tools/call": `"name":"a","arguments":null`, "tools/call raw": `"name":"raw","arguments":null`,
		"prompts/get": `"name":"a","arguments":null`,
	}
	for _, r := range mcp.Revisions() {
		l := connectLine(t, s)
		exchange := func(method, members string) {
			method, _, _ = strings.Cut(method, " ")
			answer := l.Ask(message(r, 1, method, members))
			must.CheckThat(t, strings.Contains(answer, `"result":{`) && !strings.Contains(answer, `"isError":true`),
				"%s: %s {%s}: %s", r, method, members, answer)
		}
		if r.Modern() {
			exchange(mcp.MethodDiscover, "")
		} else {
			l.Ask(fmt.Sprintf(wiretest.Initialize, r))
			l.Send(`{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`)
			exchange(mcp.MethodPing, "")
		}
		for method, members := range requests {
			exchange(method, members)
		}
	}
}

// Encoders write null for what they do not set. It is absent in all params: the server answers as if it was not sent.
func TestNullForAnOptionalMemberOfParamsIsAbsent(t *testing.T) {
	newServer := func() *server.Server {
		s := quiet()
		server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (string, error) { return "called", nil },
			server.AsTask(server.TaskOptions{}))
		server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, struct {
			X string `json:"x,omitempty" enum:"S,M"`
		}) (string, error) {
			return "prompt", nil
		})
		server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
		return s
	}
	argument := `"ref":{"type":"ref/prompt","name":"a","title":null,"uri":null},"argument":{"name":"x","value":""}`
	onEverySurface(t, newServer, func(t *testing.T, s surface) {
		for _, members := range []string{
			`tools/list "cursor":null`,
			`prompts/list "cursor":null`,
			`resources/list "cursor":null`,
			`resources/templates/list "cursor":null,"_meta":{"progressToken":null}`,
			`tools/call "name":"a","task":null,"arguments":null,"inputResponses":null`,
			`tools/call "name":"a","_meta":{"progressToken":null,"io.modelcontextprotocol/logLevel":null}`,
			`prompts/get "name":"a","arguments":{"x":null},"_meta":{"progressToken":null}`,
			`resources/read "uri":"note://a","_meta":{"progressToken":null,"com.example/x":null}`,
			`completion/complete ` + argument + `,"context":null`,
			`completion/complete ` + argument + `,"context":{"arguments":null}`,
			`completion/complete ` + argument + `,"context":{"arguments":{"y":null}}`,
		} {
			method, members, _ := strings.Cut(members, " ")
			answer := s.ask(1, method, members)
			must.CheckThat(t, strings.Contains(answer, `"result":{`) && !strings.Contains(answer, `"task":`),
				"%s {%s}: %s", method, members, answer)
		}
	})
}
