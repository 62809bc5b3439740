package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// dialTraced connects to a script and records the last message that the client sent.
func dialTraced(t *testing.T, s *script) (c *client.Client, sent *string) {
	t.Helper()
	to, _ := target(s)
	sent = new(string)
	d := quiet()
	d.Trace = func(isSent bool, message []byte) {
		if isSent {
			*sent = string(message)
		}
	}
	c = must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { c.Close() })
	return c, sent
}

func TestMissingResourceIsATypedError(t *testing.T) {
	for answer, want := range map[string]bool{
		`"error":{"code":-32002,"message":"not found","data":{"uri":"note://a"}}`:      true,
		`"error":{"code":-32002,"message":"not found"}`:                                true,
		`"error":{"code":-32602,"message":"not found","data":{"uri":"note://a"}}`:      true,
		`"error":{"code":-32602,"message":"not found","data":{"uri":null}}`:            false,
		`"error":{"code":-32602,"message":"not found","data":"note://a"}`:              false,
		`"error":{"code":-32602,"message":"the state has expired"}`:                    false,
		`"error":{"code":-32603,"message":"internal error","data":{"uri":"note://a"}}`: false,
	} {
		for _, s := range []*script{modernServer(), legacyServer()} {
			s.Answers[mcp.MethodReadResource] = []string{answer}
			c, _ := dial(t, s)
			result, err := c.ReadResource(t.Context(), "note://a")
			var reported *jsonrpc.Error
			must.CheckThat(t, errors.Is(err, call.ErrResourceNotFound) == want && errors.As(err, &reported) &&
				result == nil, "%s: %v, %v", answer, result, err)
		}
	}
}

func TestReadsAreRepeatedAfterALostConnection(t *testing.T) {
	lost := modernServer()
	lost.Answers[mcp.MethodReadResource] = []string{"!close"}
	lost.Answers[mcp.MethodGetPrompt] = []string{"!close"}
	s := modernServer()
	s.Answers[mcp.MethodReadResource] = []string{`"result":{"contents":[{"uri":"note://a","blob":"AAE="}],"ttlMs":5,` +
		`"cacheScope":"public"}`}
	s.Answers[mcp.MethodGetPrompt] = []string{`"result":{"messages":[{"role":"user","content":{"type":"text",` +
		`"text":"hello"}}]}`}

	c, _ := dial(t, lost, s)
	result, err := c.ReadResource(t.Context(), "note://a")
	must.CheckThat(t, err == nil && string(result.Contents[0].Blob) == "\x00\x01" && *result.TTLMs == 5,
		"%+v, %v", result, err)
	c, _ = dial(t, lost, s)
	prompt := must.Get(c.GetPrompt(t.Context(), "a", nil))(t)
	must.CheckEqual(t, prompt.Messages[0].Content.(*mcp.TextContent).Text, "hello", prompt)
}

func TestReadResourceTakesOptions(t *testing.T) {
	s := modernServer()
	s.Answers[mcp.MethodReadResource] = []string{"!lines " +
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,"progress":1}}
{"jsonrpc":"2.0","id":$id,"result":{"contents":[{"uri":"note://a","text":""}]}}`}
	c, sent := dialTraced(t, s)
	var reports int
	_, err := c.ReadResource(t.Context(), "note://\"a\n",
		client.WithMeta(mcp.Meta{"com.example/a": json.RawMessage(`1`)}),
		client.WithProgress(func(float64, float64, string) { reports++ }))
	if err != nil || reports != 1 || !strings.Contains(*sent, `"params":{"uri":"note://\"a\n",`) ||
		!strings.Contains(*sent, `"com.example/a":1`) {
		t.Errorf("%d progress notifications, %v, sent %s", reports, err, *sent)
	}
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "note://a",
		client.WithMeta(mcp.Meta{mcp.MetaProtocolVersion: json.RawMessage(`"x"`)}))), mcp.ErrMetaKey,
		"reserved _meta key")
}

func TestPromptArgumentsAreSentAsStrings(t *testing.T) {
	s := modernServer()
	s.Answers[mcp.MethodGetPrompt] = []string{`"result":{"messages":[]}`}
	c, sent := dialTraced(t, s)
	for _, tc := range []struct {
		arguments any
		want      string
	}{
		{nil, `"params":{"name":"a","_meta"`},
		{map[string]string{}, `"params":{"name":"a","arguments":{},"_meta"`},
		{map[string]string{"b": "\"\n", "c": ""}, `"arguments":{"b":"\"\n","c":""}`},
		{json.RawMessage(`{"n":null,"i":9007199254740993,"f":1.50,"t":true}`),
			`"arguments":{"i":"9007199254740993","f":"1.50","t":"true"}`},
		{struct {
			City    string `json:"city"`
			Degrees int64  `json:"degrees"`
		}{"Oslo", -3}, `"arguments":{"city":"Oslo","degrees":"-3"}`},
	} {
		if _, err := c.GetPrompt(t.Context(), "a", tc.arguments); err != nil || !strings.Contains(*sent, tc.want) {
			t.Errorf("%v: %v, sent %s, want %s", tc.arguments, err, *sent, tc.want)
		}
	}
	*sent = ""
	for _, arguments := range []any{"text", []string{"a"}, map[string]any{"a": []int{1}},
		map[string]any{"a": map[string]any{}}, json.RawMessage(`{`), make(chan int)} {
		if _, err := c.GetPrompt(t.Context(), "a", arguments); err == nil || *sent != "" {
			t.Errorf("%T: %v, sent %s", arguments, err, *sent)
		}
	}
}

func TestCompletionContextIsSentToNewServersOnly(t *testing.T) {
	params := mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "a", Title: "A"},
		Argument: mcp.CompleteArgument{Name: "b", Value: "c"},
		Context:  &mcp.CompleteContext{Arguments: map[string]string{"d": "e"}},
	}
	old := legacyServer()
	old.Answers["initialize"] = []string{strings.Replace(initialized, "2025-06-18", "2025-03-26", 1)}
	for s, want := range map[*script]string{
		modernServer(): `{"ref":{"type":"ref/prompt","name":"a","title":"A"},"argument":{"name":"b","value":"c"},` +
			`"context":{"arguments":{"d":"e"}}`,
		old: `{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"b","value":"c"}}`,
	} {
		s.Answers[mcp.MethodComplete] = []string{`"result":{"completion":{"values":["c1","c2"],"total":7,` +
			`"hasMore":true}}`}
		c, sent := dialTraced(t, s)
		got, err := c.Complete(t.Context(), params)
		if err != nil || len(got.Values) != 2 || *got.Total != 7 || !got.HasMore ||
			!strings.Contains(*sent, `"params":`+want) {
			t.Errorf("%+v, %v, sent %s", got, err, *sent)
		}
	}
}

func TestMalformedResultsAreInvalid(t *testing.T) {
	s := modernServer()
	s.Answers[mcp.MethodReadResource] = []string{`"result":{"contents":"none"}`}
	s.Answers[mcp.MethodGetPrompt] = []string{`"result":{"messages":7}`}
	s.Answers[mcp.MethodComplete] = []string{`"result":{"completion":7}`}
	s.Answers[mcp.MethodListTools] = []string{`"result":{"tools":[],"nextCursor":7}`}
	c, _ := dial(t, s)
	_, read := c.ReadResource(t.Context(), "note://a")
	_, prompt := c.GetPrompt(t.Context(), "a", nil)
	_, complete := c.Complete(t.Context(), mcp.CompleteParams{})
	for _, err := range []error{read, prompt, complete, listError(c)} {
		must.CheckIs(t, err, call.ErrInvalidResponse)
	}
}

func listError(c *client.Client) (last error) {
	for _, last = range c.Tools(context.Background()) {
	}
	return last
}

// A fault in the content of a result costs only the faulty part, and is logged with its position. The middleware sees
// the same result.
func TestFaultsInContentAreContained(t *testing.T) {
	for _, pass := range [][]call.Middleware{nil, {func(next call.Handler) call.Handler { return next }}} {
		s := modernServer()
		s.Answers[mcp.MethodDiscover] = []string{`"result":{"resultType":"complete",` +
			`"supportedVersions":["2026-07-28"],"capabilities":{"tools":true,"prompts":[],` +
			`"resources":{"subscribe":"no"},"extensions":[],"logging":7},` +
			`"instructions":null,"ttlMs":0,"cacheScope":"private",` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1","title":7}}}`}
		s.Answers[mcp.MethodListTools] = []string{`"result":{"tools":[{"name":"a","description":"cut \ud83d",` +
			`"inputSchema":{"type":"object"},"annotations":[],"icons":{},"title":null},7,null,` +
			`{"name":7,"inputSchema":{}},{"name":"b\ud83d","inputSchema":{}},{"name":"b\ud83e","inputSchema":{}},` +
			`{"name":"c","annotations":{"readOnlyHint":"yes","title":"C"},"_meta":7,"outputSchema":null,` +
			`"future":{"x":[1]}}]}`}
		s.Answers[mcp.MethodCallTool] = []string{`"result":{"content":["plain",{"type":"text","text":"cut \ud83d",` +
			`"annotations":{"priority":"high","audience":["user"]}},7,{"text":"x"},` +
			`{"type":"image","data":"data:image/png;base64,_-8\r\n=","mimeType":"image/png"},{"type":"image",` +
			`"data":"!!!","mimeType":"image/png"},{"type":"future","x":1},` +
			`{"type":"resource","resource":{"uri":"x:y","blob":"_-8"}}],"isError":"no","structuredContent":null,` +
			`"_meta":[]}`}
		s.Answers[mcp.MethodReadResource] = []string{`"result":{"contents":[{"uri":"a:b","blob":"YQ"},{"uri":7},` +
			`{"uri":"a:c","text":"c","mimeType":7}]}`}
		s.Answers[mcp.MethodGetPrompt] = []string{`"result":{"description":7,"messages":[{"role":"user",` +
			`"content":"text"},{"role":"user"},7]}`}
		s.Answers[mcp.MethodListPrompts] = []string{`"result":{"prompts":{}}`}
		s.Answers[mcp.MethodComplete] = []string{`"result":{"completion":{"values":["a",7],"total":"many",` +
			`"hasMore":null}}`}
		var log syncbuffer.Buffer
		d := &client.Dialer{Revision: mcp.V20260728, Logger: slog.New(slog.NewTextHandler(&log, nil)), Middleware: pass}
		to, _ := target(s)
		c := must.Get(d.Dial(t.Context(), to))(t)
		t.Cleanup(func() { c.Close() })
		if info := c.Server(); info.Info.Name != "s" || info.Info.Title != "" || info.Capabilities.Tools == nil ||
			info.Capabilities.Prompts == nil || info.Capabilities.Resources == nil || info.Capabilities.Logging != nil {
			t.Errorf("%+v", info)
		}
		var tools []*mcp.Tool
		for tool, err := range c.Tools(t.Context(), client.WithSource()) {
			must.Do(t, err)
			tools = append(tools, tool)
		}
		must.CheckThat(t, len(tools) == 2 && tools[0].Description == "cut \ufffd" && tools[1].Name == "c" &&
			tools[1].Annotations.Title == "C" && !tools[1].Annotations.ReadOnlyHint && tools[1].OutputSchema == nil &&
			strings.Contains(string(tools[1].Source), `"future":{"x":[1]}`), "%+v", tools)
		result := must.Get(c.CallTool(t.Context(), "a", nil))(t)
		got, _ := json.Marshal(result.Content)
		const want = `[{"type":"text","text":"plain"},{"type":"text","text":"cut �",` +
			`"annotations":{"audience":["user"]}},{"type":"image","data":"/+8=","mimeType":"image/png"},` +
			`{"type":"future","x":1},{"type":"resource","resource":{"uri":"x:y","blob":"/+8="}}]`
		must.CheckThat(t, string(got) == want && result.IsError, "%s, failed %v, want %s", got, result.IsError, want)
		read, err := c.ReadResource(t.Context(), "a:b")
		must.CheckThat(t, err == nil && len(read.Contents) == 2 && string(read.Contents[0].Blob) == "a" &&
			read.Contents[1].Text == "c", "%+v, %v", read, err)
		prompt := must.Get(c.GetPrompt(t.Context(), "a", nil))(t)
		must.CheckEqual(t, len(prompt.Messages), 1, prompt)
		must.Check(t, drain(c.Prompts(t.Context())))
		completion, err := c.Complete(t.Context(), mcp.CompleteParams{})
		must.CheckThat(t, err == nil && slices.Equal(completion.Values, []string{"a"}) && completion.Total == nil,
			"%+v, %v", completion, err)
		for _, part := range []string{
			"capabilities.logging", "capabilities.resources.subscribe", "part=title", "part=tools[1] ",
			"part=tools[3] ", "tools[6](c).annotations.readOnlyHint", "tools[6](c)._meta",
			"name=\"b\ufffd\"", "must not be empty", "content[1].annotations.priority", "part=content[2] ",
			"part=content[3] ", "part=content[5] ", "part=isError", "part=contents[1] ",
			"contents[2](a:c).mimeType", "part=description", "part=messages[1] ", "part=messages[2] ",
			"part=completion.values[1] ", "part=completion.total",
		} {
			must.CheckContains(t, log.String(), part)
		}
	}
}

// A cached list shows the same faults each time it is read.
func TestFaultsInCachedResultsAreLoggedOnce(t *testing.T) {
	s := modernServer()
	s.Answers[mcp.MethodListTools] = []string{`"result":{"resultType":"complete","ttlMs":60000,` +
		`"cacheScope":"private","tools":[{"name":"a","title":7,"inputSchema":{}},{"name":"","inputSchema":{}}]}`}
	var log syncbuffer.Buffer
	d := &client.Dialer{Revision: mcp.V20260728, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	to, _ := target(s)
	c := must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { c.Close() })
	for range 3 {
		must.Do(t, drain(c.Tools(t.Context())))
	}
	must.CheckThat(t, strings.Count(log.String(), "part=tools[0](a).title") == 1 &&
		strings.Count(log.String(), "must not be empty") == 1, "%v", log.String())
}

// Data from servers is decoded strictly: keys are case-sensitive.
func TestResultsAreDecodedStrictly(t *testing.T) {
	s := modernServer()
	s.Answers[mcp.MethodReadResource] = []string{`"result":{"contents":[{"uri":"note://a","text":"a","TEXT":"b",` +
		`"Text":"c"}],"Contents":[]}`}
	s.Answers[mcp.MethodListTools] = []string{`"result":{"tools":[{"name":"a","NAME":"b",` +
		`"inputSchema":{"type":"object"}}],"Tools":[],"NextCursor":"x"}`}
	c, _ := dial(t, s)
	must.CheckEqual(t, text(t, c, "note://a"), "a")
	must.CheckEqual(t, names(t, c), "a")
}

func TestLogLevelThatCouldNotBeSetIsSetAgain(t *testing.T) {
	s := &server.Server{Name: "s"}
	server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return "", nil })
	var requests atomic.Int32
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodSetLevel && requests.Add(1) == 1 {
				return nil, errors.New("not now")
			}
			return next(ctx, c)
		}
	}}
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	for range 3 {
		must.Get(c.CallTool(t.Context(), "t", nil, client.WithLogLevel(mcp.LevelDebug)))(t)
	}
	must.CheckEqual(t, requests.Load(), 2)
}
