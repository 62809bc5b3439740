package corpus_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Each HTTP request of the corpus has the expected outcome, and the server still serves. A case changes a good
// request of each era; README.md describes how.
func TestServersAnswerBadHTTPRequests(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, r)
			for _, name := range corpus.Files(t) {
				if !strings.HasPrefix(name, "http/") {
					continue
				}
				for _, c := range corpus.Cases(t, name) {
					want := c.Want(w.tags()...)
					if want == "" {
						continue
					}
					must.CheckEqual(t, must.Get(w.send(string(c.Bytes(t, w.fragments()))))(t), want, c.Place, c.Name)
					must.CheckEqual(t, must.Get(w.send(""))(t), w.good, c.Place, c.Name)
				}
			}
		})
	}
}

// web is a server over HTTP with a good request of one revision.
type web struct {
	revision mcp.Revision
	address  string
	session  string // the session of Streamable HTTP
	path     string
	header   []string // lines of the good request
	body     string
	good     string // outcome of the good request
}

func newWeb(t *testing.T, r mcp.Revision) *web {
	t.Helper()
	s := newServer()
	endpoint := httptest.NewUnstartedServer(s)
	endpoint.Config.ErrorLog = nil
	endpoint.Start()
	t.Cleanup(func() {
		shutDown(s)
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	w := &web{
		revision: r, address: endpoint.Listener.Addr().String(), path: "/", good: "200",
		header: []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"},
		body:   `{"jsonrpc":"2.0","id":"c","method":"tools/list"}`,
	}
	w.header = append(w.header, "Host: "+w.address)
	switch {
	case r.Modern():
		w.header = append(w.header, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list")
		w.body = `{"jsonrpc":"2.0","id":"c","method":"tools/list","params":{` + wiretest.Meta + `}}`
	case r == mcp.V20241105:
		w.openPair(t)
		w.good = "202"
	default:
		w.openSession(t)
	}
	return w
}

func (w *web) openSession(t *testing.T) {
	t.Helper()
	resp := wiretest.Do(t, http.MethodPost, "http://"+w.address, string(handshake(w.revision)), "Connection", "close")
	resp.Body.Close()
	w.session = resp.Header.Get("Mcp-Session-Id")
	w.header = append(w.header, "MCP-Protocol-Version: "+string(w.revision), "Mcp-Session-Id: "+w.session)
	must.Equal(t, must.Get(w.send("\n"+wiretest.Initialized))(t), "202")
}

// openPair opens an event stream, which the server closes at the end of the test.
func (w *web) openPair(t *testing.T) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", w.address))(t)
	events := make(chan string, 1000)
	done := make(chan struct{})
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+w.address+"\r\nAccept: text/event-stream\r\n\r\n")
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	go func() {
		defer close(done)
		readEvents(resp.Body, events)
	}()
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
		<-done
	})
	w.path = must.Get(nextOf(events))(t)
	for _, message := range []string{string(handshake(w.revision)), wiretest.Initialized} {
		must.Equal(t, must.Get(w.send("\n"+message))(t), "202")
	}
	go func() { // responses are not part of the outcomes
		for range events {
		}
	}()
}

func (w *web) tags() []string {
	switch {
	case w.revision.Modern():
		return []string{"modern", string(w.revision)}
	case w.revision == mcp.V20241105:
		return []string{"legacy", "pair", string(w.revision)}
	}
	return []string{"legacy", "http", string(w.revision)}
}

func (w *web) fragments() map[string]string {
	return map[string]string{"host": w.address, "session": w.session, "path": w.path, "meta": wiretest.Meta}
}

// send sends the good request with the changes of a case on a separate connection, and returns the outcome: the
// status and the code of the error, or "closed".
func (w *web) send(changes string) (string, error) {
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	request := w.request(changes)
	go func() { _, _ = io.WriteString(conn, request) }() // the server may answer before it has read everything
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err != nil &&
		strings.Contains(err.Error(), "reset by peer"):
		return "closed", nil
	case err != nil:
		return "", err
	}
	outcome := fmt.Sprint(resp.StatusCode)
	if resp.Header.Get("Content-Type") != "application/json" {
		return outcome, nil // the body may be an endless stream
	}
	body, _ := io.ReadAll(resp.Body)
	if m, err := jsonrpc.Parse(body, jsonrpc.Limits{}); err == nil && m.Err != nil {
		outcome += fmt.Sprint(" ", m.Err.Code)
	}
	return outcome, nil
}

// request returns the good request with changes: an optional request line, header lines, and after an empty line the
// body. A header line replaces all headers of that name; "+" in front adds one instead, and "-" removes the header.
func (w *web) request(changes string) string {
	head, body, hasBody := strings.Cut(changes, "\n\n")
	if strings.HasPrefix(changes, "\n") {
		head, body, hasBody = "", changes[1:], true
	}
	if !hasBody {
		body = w.body
	}
	first := "POST " + w.path + " HTTP/1.1"
	header := slices.Clone(w.header)
	for line := range strings.SplitSeq(head, "\n") {
		name, _, _ := strings.Cut(strings.TrimLeft(line, "+-"), ":")
		same := func(other string) bool { return strings.HasPrefix(strings.ToLower(other), strings.ToLower(name)+":") }
		switch {
		case line == "":
		case strings.Contains(line, " HTTP/"):
			first = line
		case line[0] == '+':
			header = append(header, line[1:])
		case line[0] == '-':
			header = slices.DeleteFunc(header, same)
		default:
			header = append(slices.DeleteFunc(header, same), line)
		}
	}
	framed := slices.ContainsFunc(header, func(line string) bool {
		lower := strings.ToLower(line)
		return strings.HasPrefix(lower, "content-length") || strings.HasPrefix(lower, "transfer-encoding")
	})
	if !framed && (hasBody || strings.HasPrefix(first, "POST")) {
		header = append(header, fmt.Sprintf("Content-Length: %d", len(body)))
	} else if !framed {
		body = ""
	}
	return first + "\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n" + body
}

// goodParams contains valid params for each message of a client, without the metadata of 2026-07-28.
var goodParams = map[string]string{
	mcp.MethodPing:                  `{}`,
	mcp.MethodDiscover:              `{}`,
	mcp.MethodListTools:             `{}`,
	mcp.MethodListPrompts:           `{}`,
	mcp.MethodListResources:         `{}`,
	mcp.MethodListResourceTemplates: `{}`,
	mcp.MethodCallTool:              `{"name":"<<echo>>","arguments":{"text":"a"}}`,
	mcp.MethodGetPrompt:             `{"name":"<<greet>>","arguments":{"name":"Ada"}}`,
	mcp.MethodReadResource:          `{"uri":"note://a"}`,
	mcp.MethodSubscribe:             `{"uri":"note://a"}`,
	mcp.MethodUnsubscribe:           `{"uri":"note://a"}`,
	mcp.MethodSetLevel:              `{"level":"error"}`,
	mcp.MethodComplete: `{"ref":{"type":"ref/prompt","name":"<<greet>>"},"argument":{"name":"name",` +
		`"value":"A"},"context":{"arguments":{"a":"b"}}}`,
	mcp.NotificationInitialized:      `{}`,
	mcp.NotificationCancelled:        `{"requestId":"none","reason":"r"}`,
	mcp.NotificationProgress:         `{"progressToken":"none","progress":1,"total":2,"message":"m"}`,
	mcp.NotificationRootsListChanged: `{}`,
}

// wrongValues contains one value of each JSON type.
var wrongValues = []string{`null`, `true`, `7`, `1.5`, `"x:y"`, `[]`, `{"a":1}`}

// A value that the schema does not allow is an invalid param. The cases are generated: each field of the params of
// each message that a client sends, at two levels, is missing or has a value of each type.
func TestServersRejectParamsThatTheSchemaDoesNotAllow(t *testing.T) {
	total := 0
	for _, r := range mcp.Revisions() {
		total += len(generated(r))
	}
	must.That(t, total >= 450, "%d cases, want at least 450", total)
	onEveryPlace(t, func(t *testing.T, pl place, connect func() *peer) {
		p, failures := connect(), 0
		for _, c := range generated(pl.revision) {
			if err := p.try(t, c); err != nil {
				t.Errorf("%s: %s: %v", c.Name, c.Input, err)
				p = reconnect(t, &failures, connect)
			}
		}
	})
}

var (
	generatedOnce  sync.Mutex
	generatedCases = make(map[mcp.Revision][]corpus.Case)
)

func generated(r mcp.Revision) []corpus.Case {
	generatedOnce.Lock()
	defer generatedOnce.Unlock()
	if generatedCases[r] == nil {
		generatedCases[r] = generate(r)
	}
	return generatedCases[r]
}

func generate(r mcp.Revision) []corpus.Case {
	var cases []corpus.Case
	for _, m := range spec.Methods(r) {
		good, ok := goodParams[m.Name]
		if !ok || !m.FromClient {
			continue
		}
		g := generator{revision: r, method: m}
		params := object(good)
		if r.Modern() {
			params["_meta"] = object(`{` + wiretest.Meta + `}`)["_meta"]
		}
		cases = append(cases, g.mutations(params, g.schema("params"), nil)...)
	}
	return cases
}

type generator struct {
	revision mcp.Revision
	method   spec.Method
}

// mutations returns the cases in which one field of an object in params is missing or of another type. where is the
// path of the object; empty means that the object is params itself.
func (g generator) mutations(in map[string]any, schema map[string]any, where []string) []corpus.Case {
	var cases []corpus.Case
	names := make(map[string]bool)
	for name := range in {
		names[name] = true
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name := range properties {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := append(slices.Clone(where), name)
		if _, present := in[name]; present {
			cases = g.add(cases, at, "")
		}
		for _, value := range wrongValues {
			cases = g.add(cases, at, value)
		}
		if inner, ok := in[name].(map[string]any); ok && len(where) == 0 {
			cases = append(cases, g.mutations(inner, resolve(g.revision, schema, "properties", name), at)...)
		}
	}
	return cases
}

// add appends the case in which a field of params has a value, or is missing if value is empty. It appends nothing if
// the schema allows that.
func (g generator) add(cases []corpus.Case, at []string, value string) []corpus.Case {
	params := object(goodParams[g.method.Name])
	if g.revision.Modern() {
		params["_meta"] = object(`{` + wiretest.Meta + `}`)["_meta"]
	}
	in := params
	for _, name := range at[:len(at)-1] {
		inner, ok := in[name].(map[string]any)
		if !ok {
			return cases
		}
		in = inner
	}
	last, what := at[len(at)-1], value
	if value == "" {
		delete(in, last)
		what = "missing"
	} else {
		in[last] = json.RawMessage(value)
	}
	input, outcomes := g.message(params), []string{"none"}
	if spec.ValidateMessage(g.revision, []byte(input), "") == nil {
		return cases
	}
	if g.method.Kind == spec.Request {
		delete(in, last)
		absent := spec.ValidateMessage(g.revision, []byte(g.message(params)), "") == nil
		outcomes = append([]string{`-32602 "c"`}, g.exceptions(at, value, absent)...)
	}
	name := fmt.Sprintf("%s: params.%s is %s", g.method.Name, strings.Join(at, "."), what)
	return append(cases, corpus.Generated(name, input, outcomes...))
}

func (g generator) message(params map[string]any) string {
	message := map[string]any{"jsonrpc": "2.0", "method": g.method.Name, "params": params}
	if g.method.Kind == spec.Request {
		message["id"] = "c"
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // << and >>
	if err := encoder.Encode(message); err != nil {
		panic(err)
	}
	return strings.TrimSpace(text.String())
}

// exceptions returns the outcomes that differ from the outcome of an invalid param, and why. optional means that
// the schema allows params without the field.
func (g generator) exceptions(at []string, value string, optional bool) []string {
	modern, last := g.revision.Modern(), at[len(at)-1]
	if value == "null" && last != "requestState" { // a state decides what a call may do, so it is never dropped
		if optional {
			return []string{`result "c"`}
		}
		value = "" // null counts as absent
	}
	switch {
	case modern && (len(at) == 1 && last == "_meta" || last == mcp.MetaProtocolVersion && value == "") &&
		g.method.Name != mcp.MethodDiscover:
		// Without the revision, only the header says that the request belongs to 2026-07-28.
		return []string{`-32600 "c"`, `http: -32602 "c"`}
	case modern && value == `{"a":1}` && (last == mcp.MetaClientInfo || last == "inputResponses"):
		// A description of the client without a name is for display only, and nobody reads a response to no input
		// request.
		return []string{`result "c"`}
	case !modern && at[0] == "_meta" || last == "task":
		// Metadata and a request for a task are optional. A server without tasks ignores the latter (2025-11-25,
		// basic/utilities/tasks, Capability Negotiation).
		return []string{`result "c"`}
	case len(at) == 1 && (last == "name" || last == "uri") && value == "":
		return []string{`modern http: -32020 "c"`} // a header repeats the field
	}
	return nil
}

// schema returns the schema of a field of the message.
func (g generator) schema(member string) map[string]any {
	return resolve(g.revision, definition(g.revision, g.method.Definition), "properties", member)
}

func definition(r mcp.Revision, name string) map[string]any {
	return object(string(spec.Definitions(r)[name]))
}

// resolve returns the part of a schema at a path, and follows references.
func resolve(r mcp.Revision, schema map[string]any, steps ...string) map[string]any {
	for _, step := range steps {
		next, ok := schema[step].(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := next["$ref"].(string); ok {
			next = definition(r, path.Base(ref))
		}
		schema = next
	}
	return schema
}

func object(text string) map[string]any {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}
