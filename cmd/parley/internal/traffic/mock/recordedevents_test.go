package mock

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/must"
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
	go func() { served <- m.Server().ServeConn(t.Context(), there) }()
	defer func() {
		here.Close()
		<-served
	}()
	var got []string
	for i, request := range requests {
		must.Do(t, here.Write(t.Context(), []byte(strings.ReplaceAll(request, "META", modernMeta))))
		for {
			message := must.Get(here.Read(t.Context()))(t)
			got = append(got, string(message))
			if bytes.HasPrefix(message, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,`, i+1)) {
				break
			}
		}
	}
	return got
}

func TestRequestsOfUnknownMethodsAreAnsweredAsRecorded(t *testing.T) {
	m := recordedMock(t, lines(echoes), nil)
	got := exchange(t, m, `{"jsonrpc":"2.0","id":1,"method":"example/echo","params":{"a":1,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":2,"method":"example/echo","params":{"a":2,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":3,"method":"example/echo","params":{"a":1,"b":2,"_meta":META}}`,
		`{"jsonrpc":"2.0","id":4,"method":"example/other","params":{"_meta":META}}`)
	for i, want := range []string{`"echoed":1`, `there are responses for {\"a\":1}`,
		`there are responses for {\"a\":1}`, `-32601`} {
		must.CheckContains(t, got[i], want)
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

// A recording has results and errors. What else ends a request is written in YAML.
func TestRequestsWithoutAnAnswerAreNotPlayed(t *testing.T) {
	c := mcptest.Dial(t, recordedMock(t, httpLines(`
	0 C 1 `+callTool+`"busy","arguments":{}}}
	1 S 1 "response":{"status":503,"headers":{"Retry-After":["7"]}},"end":true
	1 C 2 `+callTool+`"busy","arguments":{}}}
	3 S 2 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"free"}]}},"end":true
	3 C 3 `+callTool+`"cut","arguments":{}}}
	3 S 3 "response":{"status":200,"headers":{"Content-Type":["text/event-stream"]}}
	3 S 3 "error":"unexpected EOF","end":true
	6 C 7 `+callTool+`"lost","arguments":{"a":1}}}
	6 C 8 `+callTool+`"lost","arguments":{"a":2}}}
	6 S 8 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"found"}]}},"end":true
	`), nil).Server())
	for range 2 { // the last response is repeated
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "busy", nil))(t), "free")
	}
	for tool, want := range map[string]string{"cut": "unknown tool", "lost": `there are responses for {"a":2}`} {
		must.CheckFails(t, must.Err(c.CallTool(t.Context(), tool, map[string]int{"a": 1})), want, tool)
	}
}

const ask = `"result":{"resultType":"input_required","requestState":"STATE",` +
	`"inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Name?",` +
	`"requestedSchema":{"type":"object","properties":{}}}}}}}`

func TestQuestionsOfOneCallAreAskedInOrder(t *testing.T) {
	question := func(message, state string) string {
		return strings.NewReplacer("STATE", state, "Name?", message).Replace(ask)
	}
	m := recordedMock(t, httpLines(`
		0 C 1 `+callTool+`"greet","arguments":{}}}
		0 S 1 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+question("Name?", "one")+`
		1 C 2 `+callTool+
		`"greet","arguments":{},"requestState":"tampered","inputResponses":{"name":{"action":"accept"}}}}
		1 S 2 "response":{"status":400},"message":{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid requestState"}}
		2 C 3 `+callTool+`"greet","arguments":{},"requestState":"one","inputResponses":{"name":{"action":"accept"}}}}
		2 S 3 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+
		strings.Replace(question("Day?", "two"), `"name"`, `"day"`, 1)+`
		3 C 4 `+callTool+`"greet","arguments":{},"requestState":"two","inputResponses":{"day":{"action":"accept"}}}}
		3 S 4 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}]}}
		4 C 5 `+callTool+`"greet","arguments":{}}}
		4 S 5 "response":{"status":200},"message":{"jsonrpc":"2.0","id":1,`+question("Never?", "three")+`
	`), nil)
	// the result is the recorded one
	for _, action := range []mcp.ElicitAction{mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel} {
		var asked []string
		c := mcptest.Dial(t, m.Server(), mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
			d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked = append(asked, form.Message)
				return &mcp.ElicitResult{Action: action}, nil
			}
		})
		got, err := client.CallTool[string](t.Context(), c, "greet", nil)
		must.CheckThat(t, err == nil && got == "hello" && slices.Equal(asked, []string{"Name?", "Day?"}),
			"%s: got %q, %v after %q", action, got, err, asked)
	}
}

func TestNotificationsOfAnotherStreamFollowTheCallBeforeThem(t *testing.T) {
	m := recordedMock(t, httpLines(`
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
				must.Get(c.CallTool(t.Context(), "change", nil))(t)
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
func stepsOf(t *testing.T, recorded []byte) string {
	t.Helper()
	_, entries, err := recording.ReadAll(bytes.NewReader(recorded))
	must.Do(t, err)
	r := must.Get(read(entries))(t)
	var kinds []string
	for _, s := range r.calls[0].response.Steps {
		switch {
		case s.Progress != nil:
			kinds = append(kinds, "progress "+s.Message)
		case s.Elicit != nil:
			kinds = append(kinds, "elicit "+*s.Elicit+s.url)
		case s.sample != nil:
			kinds = append(kinds, "sample")
		case s.Roots:
			kinds = append(kinds, "roots")
		case s.Changed != "":
			kinds = append(kinds, "changed "+s.Changed)
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
		2 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`: "progress own",
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
		0 S 2 "message":{"jsonrpc":"2.0","id":2,"result":{"taskId":"T","status":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{}}}}}
		0 C 3 "message":{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 3 "message":{"jsonrpc":"2.0","id":3,"result":{"taskId":"T","status":"input_required","inputRequests":{"b":{"method":"sampling/createMessage","params":{}}}}}
		0 C 4 "message":{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 4 "message":{"jsonrpc":"2.0","id":4,"result":{"taskId":"T","status":"completed","result":{"content":[]}}}`: "roots, sample",
		// The result of a task ends its call.
		`
		0 C 1 ` + callTool + `"a"}}
		0 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"T","status":"working"}}}
		0 S 9 "message":{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"Go?","mode":"url","url":"http://a","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}}
		0 C 2 "message":{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"T"}}
		0 S 2 "message":{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`: "elicit Go?http://a",
	} {
		must.CheckEqual(t, stepsOf(t, httpLines(text)), want, text)
	}
}

func TestATaskAsksAndEndsAsRecorded(t *testing.T) {
	c := mcptest.Dial(t, recordedMock(t, httpLines(`
		0 C 1 "message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}
		0 S 1 "message":{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}
		0 C 2 `+callTool+`"a"}}
		0 S 2 "message":{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"T","status":"working"}}
		0 C 3 "message":{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 3 "message":{"jsonrpc":"2.0","id":2,"result":{"taskId":"T","status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"When?","requestedSchema":{"type":"object","properties":{}}}}}}}
		0 C 4 "message":{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"T"}}
		0 S 4 "message":{"jsonrpc":"2.0","id":4,"result":{"taskId":"T","status":"completed","result":{"content":[{"type":"text","text":"done"}]}}}
	`), nil).Server(), mcptest.WithRevision(mcp.V20260728), answering)
	task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
	result := must.Get(task.Wait(t.Context()))(t)
	must.CheckEqual(t, textIn(result.Content), "done", result)
}
