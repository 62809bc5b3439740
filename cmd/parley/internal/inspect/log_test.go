package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

func newTestLog() *log {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return &log{now: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}, pending: make(map[pendingKey]*entry), wake: func() {}}
}

func (l *log) addText(sent bool, text string) *entry {
	e, _ := describe("server", sent, []byte(text))
	l.add(e, []byte(text), func() {})
	return e
}

func TestLogDropsTheOldestMessages(t *testing.T) {
	l := newTestLog()
	for i := range maxMessages + 5 {
		l.addText(true, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	entries, oldest := l.after(0)
	if len(entries) != maxMessages || oldest != 6 || entries[0].Number != 6 || entries[0].ID != "5" {
		t.Errorf("%d messages, the oldest is %d: %+v", len(entries), oldest, entries[0])
	}
	_, _, ok := l.find(5)
	must.CheckThat(t, !ok, "the log has message 5")
	e, _, ok := l.find(6)
	must.CheckThat(t, ok && e.ID == "5", "message 6 is %+v", e)
	if entries, _ := l.after(maxMessages + 3); len(entries) != 2 {
		t.Errorf("%d messages after the last but two", len(entries))
	}
	must.CheckThat(t, len(l.pending) <= maxPending, "%d requests are pending", len(l.pending))
	l.clear()
	if entries, oldest := l.after(0); len(entries) != 0 || oldest != maxMessages+6 {
		t.Errorf("after clear: %d messages, the oldest is %d", len(entries), oldest)
	}
	must.CheckEqual(t, l.addText(true, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Number, maxMessages+6)
}

func TestLogLimitsTheBytesOfTexts(t *testing.T) {
	l := newTestLog()
	long := `{"jsonrpc":"2.0","method":"a","params":{"text":"` + strings.Repeat("x", 2*maxText) + `"}}`
	for range maxTexts/maxText + 3 {
		l.addText(false, long)
	}
	entries, _ := l.after(0)
	must.CheckThat(t, l.bytes <= maxTexts && len(entries) == maxTexts/maxText,
		"%d messages with %d bytes", len(entries), l.bytes)
	if e := entries[0]; e.Size != len(long) || len(e.text) != maxText {
		t.Errorf("a message of %d bytes has size %d and %d bytes of text", len(long), e.Size, len(e.text))
	}
}

func TestLogPairsResponsesWithRequestsOfTheirDirection(t *testing.T) {
	l := newTestLog()
	call := l.addText(true, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}`)
	asked := l.addText(false, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)
	answer := l.addText(true, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	result := l.addText(false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`)
	must.CheckEqual(t, answer.Request, asked.Number, answer)
	must.CheckEqual(t, answer.Method, "elicitation/create", answer)
	must.CheckThat(t, result.Request == call.Number && result.Subject == "greet" && result.Kind == kindError &&
		result.Millis == 3, "result %+v", result)
	e := l.addText(false, `not a message`)
	must.CheckEqual(t, e.Kind, kindInvalid, e)
}

func TestSearchIgnoresCase(t *testing.T) {
	l := newTestLog()
	l.addText(true, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	l.addText(true, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Größe"}}`)
	found := l.search("GRÖSSE")
	must.CheckEqual(t, len(found), 0, found)
	if found := l.search("größe"); len(found) != 1 || found[0] != 2 {
		t.Errorf("found %v", found)
	}
	if found := l.search("METHOD"); len(found) != 2 {
		t.Errorf("found %v", found)
	}
}

// body is a transport whose responses are event streams with this body, one byte at a time.
type body string

func (b body) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(string(b)))),
	}, nil
}

func TestEventsOfAStreamAreMessages(t *testing.T) {
	l := newTestLog()
	exchanges := &httpRecorder{recorder: recorder{log: l, server: "server",
		observe: func(*entry, *jsonrpc.Message, []byte) {}}, open: make(map[int64]*exchange)}
	h := &http.Client{Transport: &recording.Transport{
		Base: body(": comment\r\n\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n\r\nid: " +
			"7\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"b\"}\n\nevent: endpoint\ndata: /messages\n\ndata: " +
			"{\"jsonrpc\""),
		Report: exchanges.report,
	}}
	resp := must.Get(h.Get("http://user@server/mcp"))(t)
	must.Do(t, must.Err(io.Copy(io.Discard, resp.Body)))
	resp.Body.Close()
	entries, _ := l.after(0)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Method, " ", e.Status, " ", e.exchange.URL))
	}
	want := []string{
		"http GET 0 http://server/mcp", "notification a 200 http://server/mcp", "notification b 200 http://server/mcp",
		"http event endpoint 200 http://server/mcp",
	}
	must.CheckThat(t, slices.Equal(got, want), "the log has %q, want %q", got, want)
	must.CheckThat(t, len(exchanges.open) == 0, "the exchange is kept after its end")
}

func parsed(t *testing.T, text string) *jsonrpc.Message {
	t.Helper()
	m := must.Get(jsonrpc.Parse([]byte(text), jsonrpc.Limits{}))(t)
	return &m
}

func TestCopiesAsParleyAreCommandsOfAShell(t *testing.T) {
	for _, test := range []struct{ params, want string }{
		{`"method":"tools/call","params":{"name":"greet","arguments":{ "name": "Ada's" }}`,
			`parley call --json '{"name":"Ada'\''s"}' http://host/mcp greet`},
		{`"method":"tools/call","params":{"name":"greet","arguments":{}}`, `parley call http://host/mcp greet`},
		{`"method":"tools/call","params":{"name":"$(rm x)"}`, `parley call http://host/mcp '$(rm x)'`},
		{`"method":"tools/call","params":{"name":"--config=x","arguments":{"a":1}}`,
			`parley call --json '{"a":1}' http://host/mcp -- --config=x`},
		{`"method":"prompts/get","params":{"name":"card","arguments":{"b":"2 3","a":"1"}}`,
			`parley prompt http://host/mcp card a=1 'b=2 3'`},
		{`"method":"resources/read","params":{"uri":"demo://a?b=c&d"}`, `parley read http://host/mcp 'demo://a?b=c&d'`},
		{`"method":"tools/list"`, `parley ls http://host/mcp`},
		{`"method":"ping"`, `parley ping http://host/mcp`},
		{`"method":"tasks/get","params":{"taskId":"T1"}`, `parley task get http://host/mcp T1`},
	} {
		must.CheckEqual(t, must.Get(asParley(&Server{Words: []string{"http://host/mcp"}},
			parsed(t, `{"jsonrpc":"2.0","id":1,`+test.params+`}`)))(t), test.want, test.params)
	}
	for want, s := range map[string]*Server{
		`parley call greet -- npx 'my server'`: {Words: []string{"--", "npx", "my server"}},
		`parley call --config a.json --config 'b c.json' files greet`: {Words: []string{"files"},
			Flags: []string{"--config", "a.json", "--config", "b c.json"}},
		`parley call --config a.json -- -files greet`: {Words: []string{"-files"},
			Flags: []string{"--config", "a.json"}},
	} {
		got, err := asParley(s, parsed(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}`))
		must.CheckThat(t, err == nil && got == want, "%s, %v; want %s", got, err, want)
	}
	_, err := asParley(&Server{},
		parsed(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{}}`))
	must.CheckThat(t, err != nil, "there is a command for logging/setLevel")
}

func TestCopiesAsCurlHaveNoCredentials(t *testing.T) {
	x := &exchange{Method: "POST", URL: "http://host/mcp",
		RequestHeader: http.Header{"Content-Type": {"application/json"}, "Authorization": {hidden},
			"X-Api-Key": {hidden}, "X-`Id`": {hidden}}}
	got, err := asCurl([]byte(`{"a":"it's"}`), x)
	want := `curl -sS -X POST http://host/mcp \
  -H "Authorization: Bearer $TOKEN" \
  -H 'Content-Type: application/json' \
  -H "X-Api-Key: $X_API_KEY" \
  -H 'X-` + "`Id`: " + hidden + `' \
  --data-raw '{"a":"it'\''s"}'
`
	must.CheckThat(t, err == nil && got == want, "%s, %v; want %s", got, err, want)
	if _, err := asCurl(nil, nil); err == nil {
		t.Error("there is a command of curl for a message over stdio")
	}
}

func TestExportIsARecording(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		one := demoServer(t)
		one.Target.(*client.HTTPTarget).Header = http.Header{"Authorization": {"Bearer secret-1"},
			"X-Tenant": {"secret-2"}}
		p := start(t, one)
		p.connect(func(s *Settings) { s.Revision = revision })
		p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "count",
			Arguments: json.RawMessage(`{"to":2,"milliseconds":1}`)}))
		status, body := p.do(http.MethodGet, "/api/export", nil)
		header, entries, err := recording.ReadAll(bytes.NewReader(body))
		must.That(t, status == http.StatusOK && err == nil && header.Target == one.Target.String(),
			"%s: %d, %v, %+v\n%s", revision, status, err, header, body)
		requests, responses, events := 0, 0, 0
		for _, e := range entries {
			must.CheckThat(t, e.Wire == recording.HTTP && e.Exchange >= 1, "%s: %+v", revision, e)
			if e.Request != nil {
				requests++
			}
			if e.Response != nil {
				responses++
			}
			if e.Stream != nil {
				events++
			}
		}
		must.CheckThat(t, requests >= 3 && responses >= 3 && events >= 1,
			"%s: %d requests, %d responses, %d events\n%s", revision, requests, responses, events, body)
		status, har := p.do(http.MethodGet, "/api/export?format=har", nil)
		must.CheckEqual(t, status, http.StatusOK, revision, har)
		must.CheckContains(t, string(har), `"version": "1.2"`, revision, har)
		must.CheckThat(t, !bytes.Contains(body, []byte("secret-")) && !bytes.Contains(har, []byte("secret-")),
			"%s: the export has credentials", revision)
		p.post("/api/servers/demo/disconnect", none{}, nil)
		p.post("/api/clear", none{}, nil)
		if _, body := p.do(http.MethodGet, "/api/export", nil); bytes.Count(body, []byte("\n")) != 1 {
			t.Errorf("%s: after Clear, the export is %s", revision, body)
		}
	}
}

func TestTrafficIsRecordedWhileThePageRuns(t *testing.T) {
	near, far := transport.Pipe()
	piped := demo.New("test")
	piped.Logger = slog.New(slog.DiscardHandler)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- piped.ServeConn(ctx, far) }()
	defer func() {
		cancel()
		<-served
	}()
	other := serverAt("piped")
	other.Target = client.Conn(near)
	for name, servers := range map[string][]Server{"one": {demoServer(t)}, "two": {demoServer(t), other}} {
		var file bytes.Buffer
		w := must.Get(recording.NewWriter(&file, recording.WriterOptions{Target: servers[0].Target.String()}))(t)
		p := run(t, &Inspector{Servers: servers, Record: func(e recording.Event) { must.Check(t, w.Write(e)) }})
		for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} { // two connections
			p.connect(func(s *Settings) { s.Revision = revision })
			p.await("the other connection", func() bool {
				return p.servers[0].State == stateReady && p.servers[0].Revision == revision
			})
			p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "greet",
				Arguments: json.RawMessage(`{"name":"Ada"}`)}))
		}
		if name == "two" {
			p.post("/api/servers/piped/connect", defaultSettings(""), nil)
			p.await("connection", func() bool { return p.servers[1].State == stateReady })
			p.post("/api/servers/piped/disconnect", none{}, nil)
		}
		p.stop()
		_, entries, err := recording.ReadAll(&file)
		must.Do(t, err)
		requests := make(map[int64]bool)
		calls := 0
		for _, e := range entries {
			if e.Request != nil {
				must.CheckThat(t, !requests[e.Exchange], "%s: two requests have the number %d", name, e.Exchange)
				requests[e.Exchange] = true
			}
			if bytes.Contains(e.Message, []byte("Hello, Ada")) {
				calls++
			}
			want := map[string]map[recording.Wire]string{"one": {recording.HTTP: ""},
				"two": {recording.HTTP: "demo", recording.Stdio: "piped"}}[name]
			peer, ok := want[e.Wire]
			must.CheckThat(t, ok && e.Peer == peer, "%s: %+v", name, e)
		}
		must.CheckEqual(t, calls, 2, name, "results are recorded")
	}
}
