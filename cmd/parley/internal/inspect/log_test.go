package inspect

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/jsonrpc"
)

func newTestLog() *log {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return &log{now: func() time.Time { now = now.Add(time.Millisecond); return now }, pending: make(map[pendingKey]*entry), wake: func() {}}
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
	if _, _, ok := l.find(5); ok {
		t.Error("the log has message 5")
	}
	if e, _, ok := l.find(6); !ok || e.ID != "5" {
		t.Errorf("message 6 is %+v", e)
	}
	if entries, _ := l.after(maxMessages + 3); len(entries) != 2 {
		t.Errorf("%d messages after the last but two", len(entries))
	}
	if len(l.pending) > maxPending {
		t.Errorf("%d requests are pending", len(l.pending))
	}
	l.clear()
	if entries, oldest := l.after(0); len(entries) != 0 || oldest != maxMessages+6 {
		t.Errorf("after clear: %d messages, the oldest is %d", len(entries), oldest)
	}
	if e := l.addText(true, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); e.Number != maxMessages+6 {
		t.Errorf("the next message has number %d", e.Number)
	}
}

func TestLogLimitsTheBytesOfTexts(t *testing.T) {
	l := newTestLog()
	long := `{"jsonrpc":"2.0","method":"a","params":{"text":"` + strings.Repeat("x", 2*maxText) + `"}}`
	for range maxTexts/maxText + 3 {
		l.addText(false, long)
	}
	entries, _ := l.after(0)
	if l.bytes > maxTexts || len(entries) != maxTexts/maxText {
		t.Errorf("%d messages with %d bytes", len(entries), l.bytes)
	}
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
	if answer.Request != asked.Number || answer.Method != "elicitation/create" {
		t.Errorf("answer %+v", answer)
	}
	if result.Request != call.Number || result.Subject != "greet" || result.Kind != kindError || result.Millis != 3 {
		t.Errorf("result %+v", result)
	}
	if e := l.addText(false, `not a message`); e.Kind != kindInvalid {
		t.Errorf("%+v", e)
	}
}

func TestSearchIgnoresCase(t *testing.T) {
	l := newTestLog()
	l.addText(true, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	l.addText(true, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Größe"}}`)
	if found := l.search("GRÖSSE"); len(found) != 0 {
		t.Errorf("found %v", found)
	}
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
	exchanges := &httpRecorder{recorder: recorder{log: l, server: "server", observe: func(*entry, *jsonrpc.Message, []byte) {}}, open: make(map[int64]*exchange)}
	h := &http.Client{Transport: &traffic.Transport{
		Base:   body(": comment\r\n\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n\r\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"b\"}\n\nevent: endpoint\ndata: /messages\n\ndata: {\"jsonrpc\""),
		Report: exchanges.report,
	}}
	resp, err := h.Get("http://user@server/mcp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	entries, _ := l.after(0)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Method, " ", e.Status, " ", e.exchange.URL))
	}
	want := []string{
		"http GET 0 http://server/mcp", "notification a 200 http://server/mcp", "notification b 200 http://server/mcp", "http event endpoint 200 http://server/mcp",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if len(exchanges.open) > 0 {
		t.Error("the exchange is kept after its end")
	}
}
