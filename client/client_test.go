package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// dial dials scripts in memory.
func dial(t *testing.T, scripts ...*script) (*client.Client, *played) {
	t.Helper()
	to, played := target(scripts...)
	d := quiet()
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, played
}

// saying is a modern server whose tools answer so.
func saying(answers ...string) *script {
	s := modernServer()
	s.Answers["tools/call"] = answers
	return s
}

func content(blocks string) string { return `"result":{"content":[` + blocks + `]}` }

type weather struct {
	City    string `json:"city"`
	Degrees int64  `json:"degrees"`
}

func TestCallDecodesWhatToolsReturn(t *testing.T) {
	c, _ := dial(t, saying(
		`"result":{"content":[{"type":"text","text":"ignored"}],"structuredContent":{"city":"Oslo","degrees":9007199254740993}}`,
		content(`{"type":"text","text":"{\"city\":\"Bergen\",\"degrees\":-1}"}`),
		`"result":{"resultType":"complete","content":[],"structuredContent":{"city":"Oslo","degrees":"cold"}}`,
		content(`{"type":"text","text":"no JSON"}`),
		content(``),
		`"result":{"content":[{"type":"text","text":"it is"},{"type":"text","text":"too cold"}],"isError":true}`,
		`"error":{"code":-32602,"message":"unknown tool"}`,
	))
	got := func() (weather, error) { return client.CallTool[weather](t.Context(), c, "weather", nil) }
	if w, err := got(); err != nil || w != (weather{"Oslo", 9007199254740993}) {
		t.Errorf("structured content: %+v, %v", w, err)
	}
	if w, err := got(); err != nil || w != (weather{"Bergen", -1}) {
		t.Errorf("JSON as text: %+v, %v", w, err)
	}
	for _, what := range []string{"structured content that does not fit", "text that is no JSON", "nothing"} {
		if w, err := got(); !errors.Is(err, client.ErrInvalidResponse) {
			t.Errorf("%s: %+v, %v", what, w, err)
		}
	}
	_, err := got()
	var failed *client.ToolError
	if !errors.As(err, &failed) || failed.Tool != "weather" || len(failed.Result.Content) != 2 || !strings.Contains(err.Error(), "it is\ntoo cold") {
		t.Errorf("a failed tool: %v", err)
	}
	if _, err := got(); !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}) {
		t.Errorf("an unknown tool: %v", err)
	}
}

func TestCallOfAStringIsTheText(t *testing.T) {
	c, _ := dial(t, saying(
		content(`{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"b"}`),
		content(``),
	))
	for _, want := range []string{"a\nb", ""} {
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
}

// Blocks of a type that nobody knows yet survive as they are.
func TestUnknownContentSurvives(t *testing.T) {
	const block = `{"type":"hologram","rays":[1,2.50]}`
	c, _ := dial(t, saying(content(block+`,{"type":"text","text":"a","annotations":{"priority":0.5}}`)))
	result, err := c.CallTool(t.Context(), "a", nil)
	if err != nil || len(result.Content) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	unknown, ok := result.Content[0].(*mcp.UnknownContent)
	if !ok || unknown.Type != "hologram" || string(unknown.Raw) != block {
		t.Errorf("got %#v", result.Content[0])
	}
}

// J9: an unknown resultType makes the result invalid, none is an older server's.
func TestResultsSayWhatKindTheyAre(t *testing.T) {
	c, _ := dial(t, saying(
		`"result":{"resultType":"complete","content":[]}`,
		`"result":{"content":[]}`,
		`"result":{"resultType":"partial","content":[]}`,
		`"result":{"resultType":7,"content":[]}`,
		`"result":{"resultType":null,"content":[]}`,
		`"result":{"content":7}`,
		`"result":[]`,
		`"result":{},"error":{"code":1,"message":"both"}`,
	))
	for i := range 8 {
		_, err := c.CallTool(t.Context(), "a", nil)
		if valid := i < 2; valid != (err == nil) || !valid && !errors.Is(err, client.ErrInvalidResponse) {
			t.Errorf("result %d: %v", i, err)
		}
	}
}

func TestWhatCannotBeSentIsRefusedBefore(t *testing.T) {
	c, played := dial(t, modernServer())
	for name, arguments := range map[string]any{
		"a string": "a", "a list": []int{1}, "a number": 7, "a channel": make(chan int), "a nil pointer": (*weather)(nil),
		"raw JSON of another kind": json.RawMessage(`[]`), "raw JSON that is none": json.RawMessage(`{`), "invalid UTF-8": map[string]string{"a": "\xff"},
	} {
		if _, err := c.CallTool(t.Context(), "a", arguments); err == nil {
			t.Errorf("%s was sent as arguments", name)
		}
	}
	for name, meta := range map[string]mcp.Meta{
		"a progress token":      {mcp.MetaProgressToken: json.RawMessage("1")},
		"another version":       {mcp.MetaProtocolVersion: json.RawMessage(`"2025-06-18"`)},
		"a reserved key":        {"io.modelcontextprotocol/new": json.RawMessage("1")},
		"a key that is none":    {"a b/": json.RawMessage("1")},
		"a value that is none":  {"com.example/a": json.RawMessage("{")},
		"no value":              {"com.example/a": nil},
		"a value that is twice": {"com.example/a": json.RawMessage(`{"a":1,"a":2}`)},
	} {
		if _, err := c.CallTool(t.Context(), "a", nil, client.WithMeta(meta)); err == nil {
			t.Errorf("%s was sent in _meta", name)
		}
	}
	c.Close()
	if heard := played.methods(); heard != probed {
		t.Errorf("the server heard %s", heard)
	}
}

func TestArgumentsAreSentAsTheyAre(t *testing.T) {
	var sent string
	to, _ := target(modernServer())
	d := quiet()
	d.Trace = func(isSent bool, message []byte) {
		if isSent {
			sent = string(message)
		}
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, test := range []struct {
		arguments any
		want      string
	}{
		{nil, `"params":{"name":"a","_meta":`},
		{map[string]any{}, `"params":{"name":"a","arguments":{},"_meta":`},
		{weather{"Oslo", 9007199254740993}, `"params":{"name":"a","arguments":{"city":"Oslo","degrees":9007199254740993},"_meta":`},
		{json.RawMessage("{\n\t\"n\": 1.50\n}"), `"params":{"name":"a","arguments":{"n":1.50},"_meta":`},
	} {
		meta := mcp.Meta{"com.example/a": json.RawMessage("{\n}"), mcp.MetaTraceParent: json.RawMessage(`"00-a-b-01"`)}
		if _, err := c.CallTool(t.Context(), "a", test.arguments, client.WithMeta(meta)); err != nil {
			t.Errorf("%v: %v", test.arguments, err)
		}
		if !strings.Contains(sent, test.want) || !strings.Contains(sent, `"com.example/a":{`) || !strings.Contains(sent, `"traceparent":"00-a-b-01"`) || strings.Contains(sent, "\n") {
			t.Errorf("sent %s, want %s", sent, test.want)
		}
	}
}

// J18: cursors are opaque, the empty one too; pages are bounded.
func TestListsFollowCursors(t *testing.T) {
	s := modernServer()
	page := func(name, next string) string {
		return `"result":{"tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]` + next + `}`
	}
	s.Answers["tools/list"] = []string{page("a", `,"nextCursor":""`), page("b", `,"nextCursor":" \n\"x"`), page("c", "")}
	to, _ := target(s)
	var cursors []string
	d := quiet()
	d.Trace = func(sent bool, message []byte) {
		if m, err := jsonrpc.Parse(message, jsonrpc.Limits{}); sent && err == nil && m.Method == mcp.MethodListTools {
			raw, _ := m.Params.Get("cursor")
			cursors = append(cursors, string(raw))
		}
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("tools: %s", got)
	}
	if got := strings.Join(cursors, "; "); got != `; ""; " \n\"x"` {
		t.Errorf("cursors: %s", got)
	}
}

func TestListsThatDoNotEndAreCutOff(t *testing.T) {
	s := modernServer()
	s.Answers["tools/list"] = []string{`"result":{"tools":[],"nextCursor":"again"}`}
	c, played := dial(t, s)
	var last error
	for _, err := range c.Tools(t.Context()) {
		last = err
	}
	if !errors.Is(last, client.ErrInvalidResponse) {
		t.Errorf("got %v", last)
	}
	c.Close()
	if n := strings.Count(played.methods(), "tools/list"); n != 64 {
		t.Errorf("%d pages were asked for", n)
	}
}

func TestALoopOverAListCanEndEarly(t *testing.T) {
	s := modernServer()
	s.Answers["tools/list"] = []string{`"result":{"tools":[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}}],"nextCursor":"x"}`}
	c, played := dial(t, s)
	for range c.Tools(t.Context()) {
		break
	}
	c.Close()
	if n := strings.Count(played.methods(), "tools/list"); n != 1 {
		t.Errorf("%d pages were asked for", n)
	}
}

// J16, in both eras: the wait ends, the server is told once, the connection stays.
func TestACallEndsAtItsTimeout(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			s.Answers["tools/call"] = []string{"", "", "", called}
			to, played := target(s)
			d := quiet()
			d.Timeouts.Tool = 3 * time.Second
			d.Timeouts.Max = time.Minute
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				options []client.CallOption
				want    time.Duration
			}{
				{nil, 3 * time.Second},
				{[]client.CallOption{client.WithTimeout(10 * time.Second)}, 10 * time.Second},
				{[]client.CallOption{client.WithTimeout(-1)}, time.Minute},
			} {
				start := time.Now()
				_, err := c.CallTool(t.Context(), "a", nil, test.options...)
				var timeout *call.TimeoutError
				if !errors.As(err, &timeout) || timeout.Method != mcp.MethodCallTool || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %v, not %v", took, test.want)
				}
			}
			if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
			c.Close()
			want := "tools/call notifications/cancelled tools/call notifications/cancelled tools/call notifications/cancelled tools/call"
			if heard := played.methods(); !strings.HasSuffix(heard, want) || strings.Count(heard, "cancelled") != 3 {
				t.Errorf("the server heard %s", heard)
			}
		})
	}
}

func TestReportsComeInTheCallAndNotAfter(t *testing.T) {
	notification := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,"progress":%d,"total":2,"message":"m"}}`, n)
	}
	s := saying("!lines " + notification(1) + "\n" + notification(2) + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + "}\n" + notification(3))
	c, _ := dial(t, s)
	for range 100 {
		type report struct {
			done, total float64
			message     string
		}
		var got []report
		over := false
		_, err := c.CallTool(t.Context(), "a", nil, client.WithProgress(func(done, total float64, message string) {
			if over {
				t.Error("a report came after the call")
			}
			got = append(got, report{done, total, message})
		}))
		over = true
		if err != nil || len(got) != 2 || got[0] != (report{1, 2, "m"}) || got[1].done != 2 {
			t.Fatalf("reports %+v, %v", got, err)
		}
	}
}

// §11: many calls leave no growth.
func TestManyCallsLeaveNoGrowth(t *testing.T) {
	c, _ := dial(t, modernServer())
	calls := func(n int) uint64 {
		for range n {
			if _, err := c.CallTool(t.Context(), "a", map[string]int{"n": n}); err != nil {
				t.Fatal(err)
			}
		}
		return liveHeap()
	}
	before := calls(1000)
	after := calls(10_000)
	// The script notes the method of each call: 16 bytes, and slack of its slice.
	if grown := int64(after) - int64(before); grown > 1<<20 {
		t.Errorf("10,000 calls left %d bytes", grown)
	}
}

// liveHeap is what is reachable. One collection does not tell: pools give back what
// they hold at the second, and what was allocated while one ran is spared by it.
func liveHeap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAClientIsUsedConcurrently(t *testing.T) {
	c, _ := dial(t, modernServer())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
					t.Error(err)
				}
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
				for _, err := range c.Tools(t.Context()) {
					if err != nil {
						t.Error(err)
					}
				}
				_, _ = c.Revision(), c.Server()
			}
		})
	}
	wg.Wait()
}

// A message over the limit is a typed error, and the client goes on.
func TestAResultThatIsTooLargeIsATypedError(t *testing.T) {
	big := strings.Repeat("x", 17<<20)
	c, _ := dial(t, saying(content(`{"type":"text","text":"`+big+`"}`)), modernServer())
	_, err := c.CallTool(t.Context(), "a", nil)
	var tooLarge *transport.MessageTooLargeError
	if !errors.As(err, &tooLarge) || !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("got %.200v", err)
	}
	if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestAnUnknownRevisionIsNotDialled(t *testing.T) {
	to, played := target(modernServer())
	d := client.Dialer{Revision: "2000-01-01"}
	if _, err := d.Dial(t.Context(), to); !errors.Is(err, client.ErrRevision) {
		t.Errorf("got %v", err)
	}
	if heard := played.methods(); heard != "" {
		t.Errorf("the server heard %s", heard)
	}
}

func TestAConnectionIsDialledOnce(t *testing.T) {
	near, far := transport.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { modernServer().serve(far); far.Close() })
	defer serving.Wait()
	to := client.Conn(near)
	d := quiet()
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := d.Dial(t.Context(), to); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("a second Dial: %v", err)
	}
	far.Close()
	for err = nil; err == nil; {
		err = c.Ping(t.Context())
	}
	if !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("after the end: %v", err)
	}
}

func TestTraceSeesEveryMessage(t *testing.T) {
	to, _ := target(legacyServer())
	var mu sync.Mutex
	var seen bytes.Buffer
	d := quiet()
	d.Name, d.Version = "tracer", "9"
	d.Trace = func(sent bool, message []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&seen, "%v %s\n", sent, message)
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`true {"jsonrpc":"2.0","id":1,"method":"server/discover",`, `false {"jsonrpc":"2.0","id":1,"error":`,
		`true {"jsonrpc":"2.0","id":2,"method":"initialize",`, `"clientInfo":{"name":"tracer","version":"9"}`, `false {"jsonrpc":"2.0","id":2,"result":`,
		`true {"jsonrpc":"2.0","method":"notifications/initialized"}`, `true {"jsonrpc":"2.0","id":3,"method":"ping"}`, `false {"jsonrpc":"2.0","id":3,"result":{}}`,
	} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("%s is not in\n%s", want, &seen)
		}
	}
}

// What a server prints beside the protocol is logged, and harms nothing (S1).
func TestGarbageIsLogged(t *testing.T) {
	var logged bytes.Buffer
	to, _ := target(&script{Greeting: []string{"Listening on stdio"}, Answers: answers("server/discover", discovered)})
	d := client.Dialer{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !strings.Contains(logged.String(), "ignored") {
		t.Errorf("logged: %s", &logged)
	}
}
