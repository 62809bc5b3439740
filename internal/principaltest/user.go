package principaltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// patience is the time in which every response must arrive.
const patience = 20 * time.Second

// user sends raw requests as a principal.
type user struct {
	t    testing.TB
	name string
	// headers of all requests, such as those of a session
	headers []string
}

func newUser(t testing.TB, name string, headers ...string) *user { return &user{t, name, headers} }

// request is a request of HTTP. Text in it that names a thing is in the form of the thing.
type request struct {
	method, path, body string
	headers            []string
}

// open sends a request. The response ends with the test.
func (u *user) open(at *replica, q request) *http.Response {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	u.t.Cleanup(cancel)
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, at.url+"/"+strings.TrimPrefix(q.path, "/"), body)
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.name)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if q.method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	headers := append(append([]string{}, u.headers...), q.headers...)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// answer sends a request and returns status, headers and body: of an event stream the first message.
func (u *user) answer(at *replica, q request) string {
	u.t.Helper()
	resp := u.open(at, q)
	defer resp.Body.Close()
	text := resp.Status
	for _, name := range []string{"Content-Type", "WWW-Authenticate", "Mcp-Session-Id", "Retry-After", "Allow"} {
		text += "\n" + name + ": " + strings.Join(resp.Header.Values(name), ", ")
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		_, data := newEvents(u.t, resp).next()
		return text + "\n" + data
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return text + "\n" + string(raw)
}

// message returns the last message of the response to a request.
func (u *user) message(at *replica, q request) string {
	u.t.Helper()
	resp := u.open(at, q)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		return string(raw)
	}
	events := newEvents(u.t, resp)
	for last := ""; ; {
		_, data := events.next()
		if data == "" {
			return last
		}
		last = data
	}
}

// events reads an event stream.
type events struct {
	t    testing.TB
	scan *bufio.Scanner
}

func newEvents(t testing.TB, resp *http.Response) *events {
	t.Helper()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("no event stream: %s %s", resp.Status, raw)
	}
	e := &events{t, bufio.NewScanner(resp.Body)}
	e.scan.Buffer(nil, 1<<20)
	return e
}

// next returns the next event with data, or nothing at the end of the stream.
func (e *events) next() (id, data string) {
	for e.scan.Scan() {
		field, value, _ := strings.Cut(e.scan.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			data += value
		case field == "" && data != "":
			return id, data
		}
	}
	return "", ""
}

// until returns the first event whose data has these words, and the id of the event before it.
func (e *events) until(words string) (data, before string) {
	e.t.Helper()
	for {
		id, data := e.next()
		switch {
		case strings.Contains(data, words):
			return data, before
		case data == "" && id == "":
			e.t.Fatalf("the stream ended before %s", words)
		}
		before = id
	}
}

// session begins a session of a revision at a replica.
func (u *user) session(at *replica, r mcp.Revision) *user {
	u.t.Helper()
	resp := u.open(at, request{method: http.MethodPost, body: fmt.Sprintf(initialize, r)})
	defer resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		raw, _ := io.ReadAll(resp.Body)
		u.t.Fatalf("%s %s", resp.Status, raw)
	}
	in := newUser(u.t, u.name, "Mcp-Session-Id", id, "MCP-Protocol-Version", string(r))
	in.answer(at, request{method: http.MethodPost, body: initialized})
	return in
}

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"clientInfo":{"name":"c","version":"1"},` +
		`"capabilities":{"roots":{},"elicitation":{},"tasks":{"list":{},"cancel":{}}}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":"p",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

// modern returns a request of 2026-07-28.
func modern(method, name, members string) request {
	q := request{method: http.MethodPost, headers: []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}}
	if name != "" {
		q.headers = append(q.headers, "Mcp-Name", name)
	}
	if members != "" {
		members += ","
	}
	q.body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, members, modernMeta)
	return q
}

// legacy returns a request of a session.
func legacy(method, members string) request {
	return request{method: http.MethodPost, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, members)}
}

// member returns a string member of a message, at any depth.
func member(t testing.TB, message, name string) string {
	t.Helper()
	for d := jsontext.NewDecoder(strings.NewReader(message)); ; {
		token, err := d.ReadToken()
		if err != nil {
			t.Fatalf("no %s in %.500s", name, message)
		}
		if token.Kind() == '"' && token.String() == name && d.PeekKind() == '"' {
			if token, err = d.ReadToken(); err == nil {
				return token.String()
			}
		}
	}
}

// inputKey returns the key of the only input request of a message.
func inputKey(t testing.TB, message string) string {
	t.Helper()
	result, _ := jsonrpc.Get([]byte(message), "result")
	requests, _ := jsonrpc.Get(result, "inputRequests")
	for key := range jsonrpc.All(requests) {
		return key
	}
	t.Fatalf("no input request in %.500s", message)
	return ""
}

// eventually calls get until its result has these words.
func eventually(t testing.TB, get func() string, words string) (last string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if last = get(); strings.Contains(last, words) {
			return last
		}
	}
	t.Fatalf("no %s in %s", words, last)
	return ""
}
