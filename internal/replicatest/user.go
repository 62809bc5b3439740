package replicatest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// user sends raw requests as a principal.
type user struct {
	t    testing.TB
	name string
	// headers of all requests, such as the session's
	headers []string
}

func newUser(t testing.TB, name string, headers ...string) *user { return &user{t, name, headers} }

// request is a request of HTTP. A thing is named in the form in which the server named it.
type request struct {
	method, path, body string
	headers            []string
}

// open sends a request. The response ends with the test.
func (u *user) open(at *replica, q request) *http.Response {
	u.t.Helper()
	var headers []string
	if at.door.Headers != nil {
		headers = at.door.Headers(u.name)
	}
	client := http.DefaultClient
	if at.door.Client != nil {
		client = at.door.Client(u.name)
	}
	headers = slices.Concat(headers, u.headers, q.headers)
	if q.method == http.MethodGet {
		headers = append(headers, "Accept", "text/event-stream")
	}
	return wiretest.DoWith(u.t, client, q.method, at.url+"/"+strings.TrimPrefix(q.path, "/"), q.body, headers...)
}

// answer sends a request and returns the status, headers and body. Of an event stream, it returns
// the first message as the body.
func (u *user) answer(at *replica, q request) string {
	u.t.Helper()
	resp := u.open(at, q)
	defer resp.Body.Close()
	text := resp.Status
	for _, name := range []string{"Content-Type", "WWW-Authenticate", "Mcp-Session-Id", "Retry-After", "Allow"} {
		text += "\n" + name + ": " + strings.Join(resp.Header.Values(name), ", ")
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return text + "\n" + wiretest.Stream(u.t, resp).Data()
	}
	return text + "\n" + wiretest.Text(u.t, resp)
}

// message returns the last message of the response to a request.
func (u *user) message(at *replica, q request) string {
	u.t.Helper()
	resp := u.open(at, q)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return wiretest.Text(u.t, resp)
	}
	all := wiretest.Stream(u.t, resp).Take(-1)
	return all[len(all)-1].Data
}

// until returns the first event whose data contains words, and the id of the event before it.
func until(t testing.TB, e *wiretest.Events, words string) (data, before string) {
	t.Helper()
	for {
		event, ok := e.Next()
		switch {
		case !ok:
			t.Fatalf("the stream ended before %s", words)
		case strings.Contains(event.Data, words):
			return event.Data, before
		}
		before = event.ID
	}
}

// session begins a session of a revision at a replica.
func (u *user) session(at *replica, r mcp.Revision) *user {
	u.t.Helper()
	resp := u.open(at, request{method: http.MethodPost, body: fmt.Sprintf(initialize, r)})
	defer resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		u.t.Fatalf("%s %s", resp.Status, wiretest.Text(u.t, resp))
	}
	in := newUser(u.t, u.name, "Mcp-Session-Id", id, "MCP-Protocol-Version", string(r))
	in.answer(at, request{method: http.MethodPost, body: wiretest.Initialized})
	return in
}

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,` +
		`"clientInfo":{"name":"c","version":"1"},` +
		`"capabilities":{"roots":{},"elicitation":{},"tasks":{"list":{},"cancel":{}}}}}`
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":"p",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
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
	return request{method: http.MethodPost, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`,
		method, members)}
}

// member returns the value of a key with a string value in a message, at any depth.
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

// eventually calls get until the result contains words.
func eventually(t testing.TB, get func() string, words string) (last string) {
	t.Helper()
	for end := time.Now().Add(wiretest.Patience); time.Now().Before(end); {
		if last = get(); strings.Contains(last, words) {
			return last
		}
	}
	t.Fatalf("no %s in %s", words, last)
	return ""
}
