package mock

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/transport"
)

// modernMeta is the _meta of a request of 2026-07-28.
const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// exchange sends requests to a mock over a byte stream, and returns the messages of the server up to the last response.
func exchange(t *testing.T, m *Mock, requests ...string) []string {
	t.Helper()
	here, there := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- m.ServeConn(t.Context(), there) }()
	defer func() {
		here.Close()
		<-served
	}()
	var got []string
	for i, request := range requests {
		if err := here.Write(t.Context(), []byte(strings.ReplaceAll(request, "META", modernMeta))); err != nil {
			t.Fatal(err)
		}
		for {
			message, err := here.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(message))
			if bytes.HasPrefix(message, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,`, i+1)) {
				break
			}
		}
	}
	return got
}

func TestRequestsOfUnknownMethodsAreAnsweredAsRecorded(t *testing.T) {
	m := fromRecording(t, lines(echoes), nil)
	got := exchange(t, m,
		`{"jsonrpc":"2.0","id":1,"method":"example/echo","params":{"a":1,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":2,"method":"example/echo","params":{"a":2,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":3,"method":"example/echo","params":{"a":1,"b":2,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":4,"method":"example/other","params":{"_meta":META}}`)
	for i, want := range []string{`"echoed":1`, `there are responses for {\"a\":1}`,
		`there are responses for {\"a\":1}`, `-32601`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("got %s, want %s", got[i], want)
		}
	}
}

// Each line has a time in seconds, C or S, the number of an exchange, and members of an event.
func httpLines(text string) []byte {
	var b strings.Builder
	b.WriteString(`{"parleyRecording":1}` + "\n")
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) < 4 {
			continue
		}
		from := map[string]string{"C": "client", "S": "server"}[words[1]]
		fmt.Fprintf(&b, `{"time":"2026-08-01T12:00:0%sZ","from":%q,"wire":"http","exchange":%s,%s}`+"\n", words[0],
			from, words[2], words[3])
	}
	return []byte(b.String())
}

const callTool = `"request":{"method":"POST","url":"http://127.0.0.1/mcp"},"message":{"jsonrpc":"2.0","id":1,` +
	`"method":"tools/call","params":{"name":`

const faultyRecording = `
	0 C 1 ` + callTool + `"busy","arguments":{}}}
	1 S 1 "response":{"status":503,"headers":{"Retry-After":["7"]}},"end":true
	1 C 2 ` + callTool + `"busy","arguments":{}}}
	3 S 2 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"free"}]}},"end":true
	3 C 3 ` + callTool + `"cut","arguments":{}}}
	3 S 3 "response":{"status":200,"headers":{"Content-Type":["text/event-stream"]}}
	3 S 3 "error":"unexpected EOF","end":true
	4 C 4 ` + callTool + `"cut","arguments":{}}}
	4 S 4 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"whole"}]}},"end":true
	5 C 5 ` + callTool + `"login","arguments":{}}}
	5 S 5 "response":{"status":401},"end":true
	5 C 6 ` + callTool + `"login","arguments":{}}}
	5 S 6 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"in"}]}},"end":true
	6 C 7 ` + callTool + `"lost","arguments":{"a":1}}}
	6 C 8 ` + callTool + `"lost","arguments":{"a":2}}}
	6 S 8 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"found"}]}},"end":true
`

func TestFaultsOfARecordingAreRepeated(t *testing.T) {
	m := fromRecording(t, httpLines(faultyRecording), nil)
	c, err := client.Dial(t.Context(), client.URL(serve(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.CallTool(t.Context(), "busy", nil)
	if overload, ok := errors.AsType[*call.OverloadError](err); !ok || overload.RetryAfter != 7*time.Second {
		t.Errorf("busy: got %v", err)
	}
	if _, err := c.CallTool(t.Context(), "cut", nil); !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("cut: got %v", err)
	}
	for tool, want := range map[string]string{"busy": "free", "cut": "whole", "login": "in"} {
		for range 2 { // the last response is repeated
			if got, err := client.CallTool[string](t.Context(), c, tool, nil); err != nil || got != want {
				t.Errorf("%s: got %q, %v", tool, got, err)
			}
		}
	}
}

func TestACallWithoutAResponseHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mcptest.Dial(t, fromRecording(t, httpLines(faultyRecording), nil).Server())
		_, err := c.CallTool(t.Context(), "lost", map[string]int{"a": 1}, client.WithTimeout(time.Second))
		if timeout, ok := errors.AsType[*call.TimeoutError](err); !ok || timeout.After != time.Second {
			t.Errorf("got %v", err)
		}
	})
}

func TestThePaceOfARecordingIsKeptIfAsked(t *testing.T) {
	for pace, want := range map[bool]time.Duration{false: 0, true: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h, entries, err := traffic.ReadAll(bytes.NewReader(httpLines(faultyRecording)))
			if err != nil {
				t.Fatal(err)
			}
			m, err := FromRecording(h, entries, Options{Pace: pace})
			if err != nil {
				t.Fatal(err)
			}
			c := mcptest.Dial(t, m.Server())
			_, _ = c.CallTool(t.Context(), "busy", nil) // has status 503
			start := time.Now()
			if _, err := c.CallTool(t.Context(), "busy", nil); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("with pace %t: took %v, want %v", pace, took, want)
			}
		})
	}
}

const ask = `"result":{"resultType":"input_required","requestState":"STATE",` +
	`"inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Name?",` +
	`"requestedSchema":{"type":"object","properties":{}}}}}}}`

func TestQuestionsOfOneCallAreAskedInOrder(t *testing.T) {
	m := fromRecording(t, httpLines(`
		0 C 1 `+callTool+`"greet","arguments":{}}}
		0 S 1 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+strings.Replace(ask, "STATE", "one", 1)+`
		1 C 2 `+callTool+
		`"greet","arguments":{},"requestState":"tampered","inputResponses":{"name":{"action":"accept"}}}}
		1 S 2 "response":{"status":400},"message":{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid requestState"}}
		1 C 6 `+callTool+`"greet","arguments":{},"requestState":"one","inputResponses":{"name":5}}}
		1 S 6 "response":{"status":400},"message":{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid answer"}}
		2 C 3 `+callTool+`"greet","arguments":{},"requestState":"one","inputResponses":{"name":{"action":"accept"}}}}
		2 S 3 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+
		strings.Replace(strings.Replace(ask, "STATE", "two", 1), `"name"`, `"day"`, 1)+`
		3 C 4 `+callTool+`"greet","arguments":{},"requestState":"two","inputResponses":{"day":{"action":"accept"}}}}
		3 S 4 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}]}}
		4 C 5 `+callTool+`"greet","arguments":{}}}
		4 S 5 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+strings.Replace(ask, "STATE", "three", 1)+`
	`), nil)
	for range 2 { // the second call has no end in the recording, and ends as the first one
		got := exchange(t, m,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{},"_meta":META}}`)[0]
		for _, key := range []string{"name", "day"} {
			_, state, _ := strings.Cut(got, `"requestState":"`)
			state, _, _ = strings.Cut(state, `"`)
			if !strings.Contains(got, fmt.Sprintf(`"inputRequests":{%q:`, key)) {
				t.Fatalf("got %s, want the question %s", got, key)
			}
			got = exchange(t, m,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{},`+
					`"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{}}},"_meta":META}}`, state,
					key))[0]
		}
		if !strings.Contains(got, `"text":"hello"`) {
			t.Errorf("got %s", got)
		}
	}
}

func TestNotificationsOfAnotherStreamFollowTheCallBeforeThem(t *testing.T) {
	m := fromRecording(t, httpLines(`
		0 C 3 "message":{"jsonrpc":"2.0","id":3,"method":"resources/list"}
		0 S 3 "message":{"jsonrpc":"2.0","id":3,"result":{"resources":[{"name":"b","uri":"a:b"}]}}
		0 C 1 `+callTool+`"change","arguments":{}}}
		0 S 9 "message":{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
		0 S 8 "message":{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
		0 S 1 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}
		1 S 9 "message":{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}
		2 C 2 "message":{"jsonrpc":"2.0","id":2,"method":"prompts/list"}
		2 S 2 "message":{"jsonrpc":"2.0","id":2,"result":{"prompts":[{"name":"p"}]}}
	`), nil)
	c := mcptest.Dial(t, m.Server(), mcptest.WithRevision(mcp.V20260728))
	resyncs := 0
	changed := make(map[string]bool)
	for change, err := range c.Watch(t.Context(), client.WatchFilter{Prompts: true, URIs: []string{"a:b"}}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case change.Resync:
			if resyncs++; resyncs == 2 { // the server reports both from now on
				if _, err := c.CallTool(t.Context(), "change", nil); err != nil {
					t.Fatal(err)
				}
			}
		case change.Kind == client.PromptsChanged:
			changed["prompts"] = true
		default:
			changed[change.URI] = true
		}
		if changed["prompts"] && changed["a:b"] {
			break
		}
	}
}

// stepsOf returns the kinds of the steps of the first call of a recording.
func stepsOf(t *testing.T, recorded []byte, pace bool) string {
	t.Helper()
	h, entries, err := traffic.ReadAll(bytes.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	r, err := read(h, entries, pace)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, s := range r.calls[0].response.steps {
		switch {
		case s.wait > 0:
			kinds = append(kinds, s.wait.String())
		case s.progress != nil:
			kinds = append(kinds, "progress "+s.progress.message)
		case s.requests != nil:
			kinds = append(kinds, fmt.Sprint(len(s.requests), " questions"))
		case s.task:
			kinds = append(kinds, "task")
		case s.closeStream != nil:
			kinds = append(kinds, "close for "+s.closeStream.String())
		case s.changed != "":
			kinds = append(kinds, "changed "+s.changed)
		}
	}
	return strings.Join(kinds, ", ")
}

func TestStepsAreThoseOfTheCall(t *testing.T) {
	for text, want := range map[string]string{
		// Progress has the token of a call.
		`
		0 C 1 "message":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"a"}}}
		0 C 2 "message":{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b","_meta":{"progressToken":"b"}}}
		1 S 3 "message":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"b","progress":1,"message":"other"}}
		1 S 3 "message":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":1,"message":"own"}}
		2 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`: "1s, progress own",
		// Several streams have the same notification.
		`
		0 C 1 ` + callTool + `"a"}}
		0 S 2 "message":{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
		0 S 3 "message":{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
		0 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`: "changed tools",
		// Polls find the same questions of a task.
		`
		0 C 1 ` + callTool + `"a"}}
		0 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"T","status":"working"}}
		0 C 2 "message":{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 2 "message":{"jsonrpc":"2.0","id":2,"result":{"taskId":"T","status":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}}}
		0 C 3 "message":{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 3 "message":{"jsonrpc":"2.0","id":3,"result":{"taskId":"T","status":"input_required","inputRequests":{"b":{"method":"roots/list"}}}}`: "task, 2 questions",
		// The server ends the stream, and the client receives the response on another one.
		`
		0 C 1 ` + callTool + `"a"}}
		0 S 1 "response":{"status":200},"event":{"id":"x","retry":"500"}
		0 S 1 "end":true
		0 S 2 "message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`: "close for 500ms",
	} {
		if got := stepsOf(t, httpLines(text), true); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestWaitsAreNotRepeatedAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, entries, err := traffic.ReadAll(bytes.NewReader(httpLines(`
			0 C 1 ` + callTool + `"greet"}}
			2 S 1 "message":{"jsonrpc":"2.0","id":1,` + strings.Replace(ask, "STATE", "one", 1) + `
			3 C 2 ` + callTool + `"greet","requestState":"one","inputResponses":{"name":{"action":"accept"}}}}
			3 S 2 "message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}
		`)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := FromRecording(h, entries, Options{Pace: true})
		if err != nil {
			t.Fatal(err)
		}
		c := mcptest.Dial(t, m.Server(), mcptest.WithRevision(mcp.V20260728), answering)
		start := time.Now()
		if _, err := c.CallTool(t.Context(), "greet", nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
