package recording

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// write returns the recording of events.
func write(t *testing.T, o WriterOptions, events ...Event) string {
	t.Helper()
	o.Now = func() time.Time { return start }
	var b bytes.Buffer
	w := must.Get(NewWriter(&b, o))(t)
	for _, e := range events {
		must.Do(t, w.Write(e))
	}
	return b.String()
}

func TestMessagesAreKeptExactly(t *testing.T) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{ "jsonrpc" : "2.0",  "id" : 1.0, "x":"<\u003c&>" }`,
		`{"jsonrpc":"2.0","id":1,"id":2}`,
		"{\"jsonrpc\":\"2.0\",\n\t\"id\":1}",
		" {\"jsonrpc\":\"2.0\"} ",
		"{\"jsonrpc\":\"2.0\"}\r",
		`{"jsonrpc":`,
		"not JSON",
		"\xff\xfe\x00",
		`"` + strings.Repeat("x", 200_000) + `"`,
		`null`,
	} {
		in := Event{Time: start, From: Client, Wire: Stdio, Message: []byte(message)}
		text := write(t, WriterOptions{}, in)
		must.CheckEqual(t, strings.Count(text, "\n"), 2, message, "lines, want 2", text)
		_, entries, err := ReadAll(strings.NewReader(text))
		if err != nil {
			t.Errorf("%q: %v", message, err)
			continue
		}
		must.CheckEqual(t, cmp.Diff([]Entry{{Line: 2, Event: in}}, entries), "", message, "-written +read")
	}
}

func TestHTTPEventsAreReadAsTheyWereWritten(t *testing.T) {
	events := []Event{
		{Time: start, From: Client, Wire: HTTP, Exchange: 1,
			Request: &Request{"POST", "http://127.0.0.1/mcp?x=1", http.Header{"Accept": {"a", "b"}}},
			Message: []byte("{}")},
		{Time: start, From: Server, Wire: HTTP, Exchange: 1,
			Response: &Response{200, http.Header{"Content-Type": {"text/event-stream"}}}},
		{Time: start, From: Server, Wire: HTTP, Exchange: 1, Stream: &StreamPart{ID: "7", Retry: "100"}},
		{Time: start, From: Server, Wire: HTTP, Exchange: 1, Stream: &StreamPart{}, Message: []byte("[1]"),
			Peer: "files", Truncated: true},
		{Time: start, From: Server, Wire: HTTP, Exchange: 1, End: true, Error: "unexpected EOF"},
	}
	h, entries, err := ReadAll(strings.NewReader(write(t,
		WriterOptions{Program: "parley 1", Target: "http://127.0.0.1/mcp"}, events...)))
	must.Do(t, err)
	must.CheckEqual(t, cmp.Diff(Header{Version: 1, Program: "parley 1", Time: start, Target: "http://127.0.0.1/mcp",
		Redacted: true}, h), "")
	var got []Event
	for _, e := range entries {
		got = append(got, e.Event)
	}
	must.CheckEqual(t, cmp.Diff(events, got), "", "-written +read")
}

func TestInvalidRecordingsAreRejectedWithTheirLine(t *testing.T) {
	const header = `{"parleyRecording":1}` + "\n"
	for text, want := range map[string]string{
		"":                  "the recording is empty",
		`{"mcpServers":{}}`: "line 1: not a recording: the first line must be an object with parleyRecording",
		"tools:\n- a":       "line 1: not a recording",
		`{"parleyRecording":2}`: "line 1: the recording has version 2, but this program reads versions up to 1; " +
			"use a newer parley",
		header + "\n{":                             "line 3: ",
		header + `{"from":"host"}`:                 `line 2: from must be "client" or "server", not "host"`,
		header + `{"from":"client"}`:               `line 2: wire must be "stdio" or "http"`,
		header + `{"from":"client","wire":"http"}`: "line 2: exchange must be a positive number over HTTP",
		header + strings.Repeat("x", maxLine+1):    "line 2: longer than ",
	} {
		_, _, err := ReadAll(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %s…", text, err, want)
		}
	}
}

func TestUnknownMembersAreIgnored(t *testing.T) {
	_, entries, err := ReadAll(strings.NewReader(`{"parleyRecording":1,"new":1}` + "\n" +
		`{"from":"client","wire":"stdio","new":[],"message":{}}`))
	must.CheckThat(t, err == nil && len(entries) == 1 && string(entries[0].Message) == "{}", "%v, %v", entries, err)
}

func TestLongMessagesAreTruncated(t *testing.T) {
	text := write(t, WriterOptions{}, Event{From: Client, Wire: Stdio,
		Message: bytes.Repeat([]byte("\xff"), MaxMessage+1)})
	_, entries, err := ReadAll(strings.NewReader(text))
	must.That(t, err == nil && len(entries) == 1, "%v %v", len(entries), err)
	if e := entries[0]; len(e.Message) != MaxMessage || !e.Truncated {
		t.Errorf("%d bytes, truncated: %v", len(e.Message), e.Truncated)
	}
}

// failingWriter counts calls of Write, one of which fails.
type failingWriter struct {
	bytes.Buffer
	writes, failAt int
	err            error // nil: it writes less without an error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes == w.failAt {
		return len(p) - 1, w.err
	}
	return w.Buffer.Write(p)
}

func TestEachEventIsOneWrite(t *testing.T) {
	f := new(failingWriter)
	w := must.Get(NewWriter(f, WriterOptions{}))(t)
	var writing sync.WaitGroup
	for range 8 {
		writing.Go(func() {
			for range 50 {
				must.Check(t, w.Write(Event{From: Server, Wire: Stdio, Message: []byte(`{"a":1}`)}))
			}
		})
	}
	writing.Wait()
	must.CheckEqual(t, f.writes, 401, "writes, want 401")
	if _, entries, err := ReadAll(&f.Buffer); err != nil || len(entries) != 400 {
		t.Errorf("%d events, %v", len(entries), err)
	}
}

func TestNothingIsWrittenAfterAnError(t *testing.T) {
	for _, want := range []error{os.ErrClosed, io.ErrShortWrite} {
		f := &failingWriter{failAt: 2}
		if want != io.ErrShortWrite { // of a Writer that does not say so
			f.err = want
		}
		w := must.Get(NewWriter(f, WriterOptions{}))(t)
		for range 2 {
			must.CheckIs(t, w.Write(Event{From: Server, Wire: Stdio}), want)
		}
		must.CheckEqual(t, f.writes, 2, want)
	}
}

func TestCreateKeepsAnExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w := must.Get(Create(path, WriterOptions{}))(t)
	must.Check(t, w.Write(Event{From: Client, Wire: Stdio}))
	must.Check(t, w.Close())
	if _, entries, err := ReadFile(path); err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
	for _, want := range []string{"r-2.jsonl", "r-3.jsonl"} {
		w = must.Get(Create(path, WriterOptions{}))(t)
		must.CheckEqual(t, filepath.Base(w.Path()), want)
		must.Check(t, w.Close())
	}
	if _, entries, err := ReadFile(path); err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
	if _, err := Create(filepath.Dir(path), WriterOptions{}); err == nil ||
		!strings.HasSuffix(err.Error(), "file exists; choose another name") {
		t.Error(err)
	}
}

// archive is the HTTP archive of two exchanges, the first of which is an event stream.
const archive = `{"log": {"version": "1.2", "creator": {"name": "parley", "version": "1.2"}, "entries": [
	{
		"startedDateTime": "2026-08-01T12:00:00Z", "time": 9, "timings": {"send": 0, "wait": 5, "receive": 4},
		"request": {
			"method": "POST", "url": "http://h/mcp?a=b", "httpVersion": "HTTP/1.1", "cookies": [],
			"headers": [{"name": "Content-Type", "value": "application/json"}], "headersSize": -1,
			"queryString": [{"name": "a", "value": "b"}],
			"postData": {"mimeType": "application/json", "text": "{\"id\":1}"}, "bodySize": 8
		},
		"response": {
			"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "cookies": [],
			"headers": [{"name": "Content-Type", "value": "text/event-stream"}], "headersSize": -1, "redirectURL": "",
			"content": {"size": 37, "mimeType": "text/event-stream", "text": "id: 7\nevent: message\ndata: {\"id\":1}\n\n"},
			"bodySize": 37
		},
		"cache": {}, "comment": ""
	},
	{
		"startedDateTime": "2026-08-01T12:00:00.001Z", "time": 8, "timings": {"send": 0, "wait": 8, "receive": 0},
		"request": {
			"method": "DELETE", "url": "http://h/mcp", "httpVersion": "HTTP/1.1", "cookies": [], "headers": [],
			"headersSize": -1, "queryString": [], "bodySize": 0
		},
		"response": {
			"status": 204, "statusText": "No Content", "httpVersion": "HTTP/1.1", "cookies": [], "headers": [],
			"headersSize": -1, "redirectURL": "", "content": {"size": 0, "mimeType": "", "text": ""}, "bodySize": 0
		},
		"cache": {}, "comment": ""
	}
]}}`

func TestHARHasEachExchange(t *testing.T) {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	text := write(t, WriterOptions{Program: "parley 1.2"},
		Event{Time: at(0), From: Client, Wire: HTTP, Exchange: 1,
			Request: &Request{"POST", "http://h/mcp?a=b", http.Header{"Content-Type": {"application/json"}}},
			Message: []byte(`{"id":1}`)},
		Event{Time: at(1), From: Client, Wire: HTTP, Exchange: 2, Request: &Request{"DELETE", "http://h/mcp", nil}},
		Event{Time: at(5), From: Server, Wire: HTTP, Exchange: 1,
			Response: &Response{200, http.Header{"Content-Type": {"text/event-stream"}}}},
		Event{Time: at(8), From: Server, Wire: HTTP, Exchange: 1, Stream: &StreamPart{ID: "7", Name: "message"},
			Message: []byte(`{"id":1}`)},
		Event{Time: at(9), From: Server, Wire: HTTP, Exchange: 2, Response: &Response{204, nil}, End: true},
		Event{Time: at(9), From: Server, Wire: HTTP, Exchange: 1, End: true},
	)
	h, entries, err := ReadAll(strings.NewReader(text))
	must.Do(t, err)
	var b bytes.Buffer
	must.Do(t, WriteHAR(&b, h, entries))
	var got, want any
	for text, into := range map[string]*any{b.String(): &got, archive: &want} {
		must.Do(t, json.Unmarshal([]byte(text), into))
	}
	must.CheckEqual(t, cmp.Diff(want, got), "")
	if err := WriteHAR(&b, h, nil); err != ErrNoHTTP {
		t.Error(err)
	}
}

// recorded returns the event that a recording of e has.
func recorded(t *testing.T, o WriterOptions, e Event) Event {
	t.Helper()
	_, entries, err := ReadAll(strings.NewReader(write(t, o, e)))
	must.Do(t, err)
	return entries[0].Event
}

func TestSecretsInMessagesAreRedacted(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"password": "p\"\\" , "x":[{"api_key":12}]},` +
			`"_meta":{"progressToken":"t"}}}`: `{"jsonrpc":"2.0","method":"tools/call",` +
			`"params":{"arguments":{"password": "redacted-1" , "x":[{"api_key":"redacted-2"}]},` +
			`"_meta":{"progressToken":"t"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":{"accessToken":"a","note":"token"}}}`: `{"jsonrpc":"2.0","id":1,"result":{"content":{"accessToken":"redacted-1","note":"token"}}}`,
		`[{"jsonrpc":"2.0","params":{"arguments":{"secret":"a"}}}]`:                        `[{"jsonrpc":"2.0","params":{"arguments":{"secret":"redacted-1"}}}]`,
		`{"jsonrpc":"2.0","params":{"inputResponses":{"a":{"content":{"pin":1234,` +
			`"pwd":1234}}}}}`: `{"jsonrpc":"2.0","params":{"inputResponses":{"a":{"content":{"pin":"redacted-1",` +
			`"pwd":"redacted-1"}}}}}`,
		`{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}`: `{"access_token":"redacted-1","token_type":"Bearer","expires_in":3600,"refresh_token":"redacted-2"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{"properties":{"password":{"type":"string"}}}}],` +
			`"nextCursor":"c","token":"x"}}`: ``,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"tokens":5,"maxTokens":5,"key":"k",` +
			`"monkey":"m","progressToken":1}}}`: ``,
		`password=x`: ``,
	} {
		if want == "" {
			want = message
		}
		got := string(recorded(t, WriterOptions{}, Event{From: Client, Wire: Stdio, Message: []byte(message)}).Message)
		must.CheckThat(t, got == want, "recorded %s\nwant     %s", got, want)
		if got := string(recorded(t, WriterOptions{KeepSecrets: true},
			Event{From: Client, Wire: Stdio, Message: []byte(message)}).Message); got != message {
			t.Errorf("with secrets: recorded %s\nwant     %s", got, message)
		}
	}
}

func TestSecretsInHTTPAreRedacted(t *testing.T) {
	e := Event{From: Client, Wire: HTTP, Exchange: 1, Request: &Request{"POST",
		"https://u:p@h/token?code=a%20b&x=1#access_token=t", http.Header{
			"Authorization": {"Bearer s3cret"}, "Cookie": {"a=b"}, "Mcp-Session-Id": {"s"}, "X-Api-Key": {"k"}, "X-Acme": {"a"}, "X-Acme-Region": {"eu"},
			"Mcp-Name": {"password"}, "Content-Type": {"application/x-www-form-urlencoded"},
		}}, Message: []byte("grant_type=authorization_code&code=a+b&client_id=c&code_verifier=v")}
	got := recorded(t, WriterOptions{SecretHeaders: func() []string { return []string{"x-acme"} }}, e)
	for name, value := range map[string]string{
		"Authorization": "Bearer redacted-", "Cookie": "redacted-", "Mcp-Session-Id": "redacted-",
		"X-Api-Key": "redacted-", "X-Acme": "redacted-", "X-Acme-Region": "eu", "Mcp-Name": "password", "Content-Type": "application/x-www-form-urlencoded",
	} {
		if !strings.HasPrefix(got.Request.Header.Get(name), value) {
			t.Errorf("%s: %s, want %s…", name, got.Request.Header.Get(name), value)
		}
	}
	must.CheckEqual(t, got.Request.URL, "https://redacted-1@h/token?code=redacted-2&x=1#access_token=redacted-3")
	if form := string(got.Message); !strings.HasPrefix(form,
		"grant_type=authorization_code&code=redacted-2&client_id=c&code_verifier=redacted-") {
		t.Error(form)
	}
	if strings.Contains(e.Request.URL, "redacted") || e.Request.Header.Get("Cookie") != "a=b" {
		t.Error("the event of the caller has changed")
	}
}

// The endpoint of HTTP+SSE has the session in its URL.
func TestASessionHasOneReplacement(t *testing.T) {
	text := write(t, WriterOptions{},
		Event{From: Server, Wire: HTTP, Exchange: 1, Stream: &StreamPart{Name: "endpoint"},
			Message: []byte("/messages?sessionId=abc")},
		Event{From: Client, Wire: HTTP, Exchange: 2, Request: &Request{"POST", "http://h/messages?sessionId=abc",
			http.Header{"Mcp-Session-Id": {"abc"}}}},
	)
	must.CheckThat(t, !strings.Contains(text, "abc") && strings.Count(text, "redacted-1") == 3, "%v", text)
}
