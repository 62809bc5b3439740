package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// fuzzedStatuses are the statuses of the server and those of net/http for requests that it cannot read.
var fuzzedStatuses = []int{
	http.StatusContinue, http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusBadRequest,
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusNotAcceptable, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusTooManyRequests,
	http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusServiceUnavailable,
	http.StatusHTTPVersionNotSupported,
}

const fuzzedToken = "correct-token"

// FuzzHTTPHandler sends any bytes to a server that requires a token. The server does not panic, answers with known
// statuses, ends, and serves a call only if a request has the token.
func FuzzHTTPHandler(f *testing.F) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"},` +
		wiretest.Meta + `}}`
	post := func(header, body string) []byte {
		return []byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n" + header + "\r\n" + body)
	}
	const bearer = "Authorization: Bearer " + fuzzedToken + "\r\n"
	const named = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
	const handshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, raw := range [][]byte{
		post(bearer+named, modern), post(named, modern), post("Authorization: Bearer correct-tokem\r\n"+named, modern),
		post(bearer, handshake), post(bearer+"Accept: text/event-stream\r\n", handshake), post("", handshake),
		post(bearer+"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
		post(bearer+"Content-Encoding: gzip\r\n", modern),
		post(bearer+"Origin: https://evil.example\r\n"+named, modern),
		append(post(bearer, handshake), post("", modern)...), post(bearer+"Expect: 100-continue\r\n"+named, modern),
		[]byte("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + bearer + "\r\n"),
		[]byte("DELETE / HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: x\r\n\r\n"),
		[]byte("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		post(bearer+named, modern)[:300], []byte("GET /.well-known/oauth-protected-resource HTTP/1.0\r\n\r\n"),
		{0x16, 0x03, 0x01},
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		synctest.Test(t, func(t *testing.T) {
			response, calls := sendRaw(t, raw)
			must.That(t, calls <= 0 || authorized(raw), "%q is served", raw)
			must.That(t, calls != 0 || !bytes.Equal(raw, post(bearer+named, modern)),
				"an authorized call is answered with %q", response)
			checkStatuses(t, raw, response)
		})
	})
}

// authorized reports whether one of the requests in raw has the token.
func authorized(raw []byte) bool {
	for sent := bufio.NewReader(bytes.NewReader(raw)); ; {
		request, err := http.ReadRequest(sent)
		if err != nil {
			return false
		}
		if scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " "); strings.EqualFold(scheme,
			"Bearer") && strings.TrimSpace(token) == fuzzedToken {
			return true
		}
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// sendRaw sends bytes to a new server over a connection in memory, and returns the bytes of the response and the
// number of calls that reached the middleware.
func sendRaw(t *testing.T, raw []byte) (response []byte, calls int64) {
	var served atomic.Int64
	s := httpServer()
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			served.Add(1)
			return next(ctx, c)
		}
	}}
	s.Auth = &auth.ProtectedResource{URI: "http://localhost/mcp", Issuers: []string{"https://as.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			if token != fuzzedToken {
				return nil, &auth.InvalidTokenError{Reason: "the token is unknown"}
			}
			p, err := principal.New("https://as.example", "ada", "")
			return &auth.Info{Principal: p, Audience: []string{"http://localhost/mcp"},
					Expiry: time.Now().Add(time.Hour)},
				err
		})}
	var failures bytes.Buffer // log.Logger locks it, and it is read after the server has ended
	near, far := net.Pipe()
	listener := &memoryNet{make(chan net.Conn, 1), make(chan struct{})}
	listener.conns <- far
	h := &http.Server{Handler: s, ErrorLog: log.New(&failures, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Serve(listener)
	}()
	go func() {
		_, _ = near.Write(raw) // ends when the connection is closed
	}()
	_ = near.SetReadDeadline(time.Now().Add(2 * time.Minute)) // in the bubble, this takes no time
	response, err := io.ReadAll(near)
	must.CheckThat(t, err == nil || errors.Is(err, io.ErrClosedPipe) || strings.Contains(err.Error(), "timeout"),
		"read: %v", err)
	near.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Check(t, s.Shutdown(ctx), raw)
	must.Check(t, h.Shutdown(ctx), raw)
	<-ended
	must.That(t, !strings.Contains(failures.String(), "panic"), "%q: %s", raw, failures.String())
	return response, served.Load()
}

// checkStatuses checks the statuses of the responses to the requests in raw.
func checkStatuses(t *testing.T, raw, responses []byte) {
	t.Helper()
	sent, answered := bufio.NewReader(bytes.NewReader(raw)), bufio.NewReader(bytes.NewReader(responses))
	for {
		request, err := http.ReadRequest(sent)
		if err != nil {
			request = nil
		} else {
			_, _ = io.Copy(io.Discard, request.Body)
		}
		response, err := http.ReadResponse(answered, request)
		if err != nil {
			must.That(t, len(responses) == 0 || bytes.HasPrefix(responses, []byte("HTTP/1.")),
				"%q is answered with %q", raw, responses)
			return
		}
		must.That(t, slices.Contains(fuzzedStatuses, response.StatusCode), "%q is answered with %q", raw, responses)
		_, _ = io.Copy(io.Discard, response.Body)
		if request == nil {
			return
		}
	}
}

// FuzzBatch checks that a batch of 2025-03-26 has one response for each request and each invalid message, and that the
// connection serves the next request. A batch that the revision forbids as a whole has a single error.
func FuzzBatch(f *testing.F) {
	s := httpServer()
	s.Limits.CallsPerSecond = -1
	l := connectLine(f, s)
	l.Send(fmt.Sprintf(wiretest.Initialize, mcp.V20250326))
	l.Receive()
	l.Send(wiretest.Initialized)
	f.Add([]byte{0, 1, 2, 3, 4, 5}, "")
	f.Add([]byte{}, "")
	f.Add([]byte{0, 6, 0}, "")
	f.Add([]byte{3, 3}, "")
	f.Add([]byte{0, 7}, "")
	f.Add([]byte{0},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`)
	f.Add([]byte{1}, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`)
	f.Add([]byte{1}, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	f.Add([]byte{7}, `{"jsonrpc":"2.0","id":0.0}`)
	f.Add([]byte{0}, `{"jsonrpc":"2.0","id":9,"method":"initialize"}`)
	f.Add([]byte(strings.Repeat("\x00", 101)), "")
	f.Fuzz(func(t *testing.T, kinds []byte, raw string) {
		var elements []string
		for i, kind := range kinds {
			elements = append(elements, [...]string{
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"echo",`+
					`"arguments":{"text":"%d"}}}`, i, i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"unknown"}`, i),
				`{"jsonrpc":"2.0","method":"notifications/unknown"}`,
				`{"jsonrpc":"2.0","id":77,"result":{}}`,
				`7`,
				`{"jsonrpc":"2.0","id":0,"method":"ping"}`,
				`[]`,
			}[kind%8])
		}
		if raw != "" {
			elements = append(elements, raw)
		}
		batch := "[" + strings.Join(elements, ",") + "]"
		if jsonrpc.Check([]byte(batch), jsonrpc.Limits{}) != nil || strings.ContainsAny(batch, "\r\n") ||
			strings.Contains(batch, "cancelled") {
			return // other targets test invalid JSON and lines; a cancelled request has no response
		}
		var parts []json.RawMessage // raw may have several elements
		must.Do(t, json.Unmarshal([]byte(batch), &parts))
		want := make(map[jsonrpc.ID]int) // responses by id; the zero ID is null
		requested := make(map[jsonrpc.ID]bool)
		total, whole := 0, len(parts) == 0 || len(parts) > 100
		for _, part := range parts {
			m, _ := jsonrpc.Parse(part, jsonrpc.Limits{})
			switch m.Kind {
			case jsonrpc.Request:
				whole = whole || requested[m.ID] || m.Method == mcp.MethodInitialize ||
					revision.Classify(revision.Input{Message: &m, Agreed: mcp.V20250326}).Era == revision.Modern
				requested[m.ID] = true
				fallthrough
			case jsonrpc.Invalid:
				// The id 1.0 is returned as it is. Parse then reads the id of the response as 1.
				response, _ := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`,
					must.Get(json.Marshal(m.ID))(t)), jsonrpc.Limits{})
				want[response.ID]++
				total++
			}
		}
		l := &line{&wiretest.Peer{T: t, Conn: l.Conn}}
		l.Send(batch)
		if whole || total > 0 {
			response := l.Receive()
			if whole {
				m := must.Get(jsonrpc.Parse([]byte(response), jsonrpc.Limits{}))(t)
				must.That(t, m.Err != nil && m.ID.IsZero(), "%s is answered with %s", batch, response)
			} else {
				checkResponses(t, batch, response, want, total)
			}
		}
		l.Send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
		must.Equal(t, l.Receive(), `{"jsonrpc":"2.0","id":"after","result":{}}`, batch)
	})
}

// checkResponses checks the responses of a batch: want has their number by id.
func checkResponses(t *testing.T, batch, response string, want map[jsonrpc.ID]int, total int) {
	t.Helper()
	parts := must.Get(jsonrpc.SplitBatch([]byte(response), jsonrpc.Limits{}))(t)
	must.Equal(t, len(parts), total, batch, response)
	for _, part := range parts {
		m, err := jsonrpc.Parse(part, jsonrpc.Limits{})
		if want[m.ID]--; err != nil || m.Kind != jsonrpc.Response || want[m.ID] < 0 {
			t.Fatalf("%s is answered with %s: %v", batch, response, err)
		}
	}
}

func FuzzDecodeA(f *testing.F) { fuzzDecode(f, mcp.V20241105) }

func FuzzDecodeB(f *testing.F) { fuzzDecode(f, mcp.V20250326) }

func FuzzDecodeC(f *testing.F) { fuzzDecode(f, mcp.V20250618) }

func FuzzDecodeD(f *testing.F) { fuzzDecode(f, mcp.V20251125) }

func FuzzDecodeE(f *testing.F) { fuzzDecode(f, mcp.V20260728) }

// decodedRequests are the params of a valid request of each method that a client sends.
var decodedRequests = map[string]string{
	mcp.MethodInitialize: `{"protocolVersion":"%s","capabilities":{"roots":{"listChanged":true},` +
		`"sampling":{},"elicitation":{},"experimental":{"x":{}}},"clientInfo":{"name":"c","version":"1","title":"C"}}`,
	mcp.MethodPing:                  `{}`,
	mcp.MethodDiscover:              `{}`,
	mcp.MethodListTools:             `{}`,
	mcp.MethodListPrompts:           `{}`,
	mcp.MethodListResources:         `{}`,
	mcp.MethodListResourceTemplates: `{}`,
	mcp.MethodCallTool:              `{"name":"any","arguments":{"a":1}}`,
	mcp.MethodGetPrompt:             `{"name":"any","arguments":{"a":"b"}}`,
	mcp.MethodReadResource:          `{"uri":"any:a"}`,
	mcp.MethodSubscribe:             `{"uri":"any:a"}`,
	mcp.MethodUnsubscribe:           `{"uri":"any:a"}`,
	mcp.MethodComplete: `{"ref":{"type":"ref/prompt","name":"any"},"argument":{"name":"a","value":"b"},` +
		`"context":{"arguments":{"b":"c"}}}`,
	mcp.MethodSetLevel: `{"level":"info"}`,
}

// fuzzDecode replaces one value in a valid request of revision r. The server accepts the request if and only if it is
// valid for the official schema, except as [decodeExceptions] says.
func fuzzDecode(f *testing.F, r mcp.Revision) {
	s := decodingServer(f)
	connect := func(t testing.TB) *line {
		l := connectLine(t, s)
		if !r.Modern() {
			l.Send(fmt.Sprintf(wiretest.Initialize, r))
			l.Receive()
			l.Send(wiretest.Initialized)
		}
		return l
	}
	connected := connect(f)
	var methods []string
	for _, method := range slices.Sorted(maps.Keys(decodedRequests)) {
		if revision.Lookup(method).In(r) {
			methods = append(methods, method)
		}
	}
	params := func(method string) map[string]any {
		text := decodedRequests[method]
		if method == mcp.MethodInitialize {
			text = fmt.Sprintf(text, r)
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			f.Fatal(err)
		}
		members["_meta"] = map[string]any{"progressToken": "p", "x.example/y": 1}
		if r.Modern() {
			var meta map[string]any
			_ = json.Unmarshal([]byte("{"+wiretest.Meta+"}"), &meta)
			maps.Copy(members["_meta"].(map[string]any), meta["_meta"].(map[string]any))
		}
		return members
	}
	for i, method := range methods {
		for j := range placesIn(map[string]any{"params": params(method)}) {
			for _, value := range []string{"", `null`, `7`, `-1.5`, `1e1`, `"x"`, `true`, `{}`, `[]`, `{"x":7}`} {
				f.Add(uint8(i), uint8(j), value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, at, place uint8, value string) {
		method := methods[int(at)%len(methods)]
		document := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params(method)}
		places := placesIn(map[string]any{"params": document["params"]})
		path := places[int(place)%len(places)]
		if value != "" && (!jsontext.Value(value).IsValid() ||
			jsonrpc.Check([]byte(value), jsonrpc.Limits{MaxDepth: 50}) != nil) {
			return
		}
		replaceAt(document, path, value)
		raw := must.Get(json.Marshal(document))(t)
		l := &line{&wiretest.Peer{T: t, Conn: connected.Conn}}
		if method == mcp.MethodInitialize {
			l = connectLine(t, s)
		}
		l.Send(string(raw))
		response := l.Receive()
		m := must.Get(jsonrpc.Parse([]byte(response), jsonrpc.Limits{}))(t)
		must.Equal(t, m.Kind, jsonrpc.Response, raw, response)
		invalid := spec.ValidateMessage(r, raw, "")
		rejected := m.Err != nil
		if rejected == (invalid != nil) || decodeExceptions(r, method, path, value, rejected) {
			return
		}
		if !rejected && strings.Contains(value, "null") && spec.ValidateMessage(r, withoutNulls(t, raw), "") == nil {
			return // null is absent
		}
		change := fmt.Sprintf("%s with %s set to %q", method, strings.Join(path, "."), value)
		must.That(t, !rejected, "%s is valid, and the server rejects %s with %s", change, raw, response)
		t.Fatalf("%s is invalid, and the server accepts it with %s: %v", change, response, invalid)
	})
}

// decodeExceptions reports whether the server may reject a valid request, or accept an invalid one, whose value at
// path was replaced.
func decodeExceptions(r mcp.Revision, method string, path []string, value string, rejected bool) bool {
	at := strings.Join(path, ".")
	is := func(places ...string) bool { return slices.Contains(places, at) }
	below := func(place string) bool { return at == place || strings.HasPrefix(at, place+".") }
	if rejected {
		switch {
		case is("params.name", "params.uri", "params.ref.name", "params.ref", "params.argument.name", "params.argument",
			"params.cursor", "params._meta.io.modelcontextprotocol/protocolVersion"):
			return true // the value is valid, and names nothing that the server has
		case below("params.arguments") && method == mcp.MethodGetPrompt:
			return true // the prompt has other arguments
		case is("params._meta.progressToken"):
			return strings.ContainsAny(value, ".eE") // an integer with a fraction or an exponent must have 64 bits at most
		case is("params", "params._meta"):
			return true // the replacement can have any of these members
		case r < mcp.V20250618 && (below("params.context") || below("params.capabilities") ||
			below("params.clientInfo")):
			return true // members of a later revision are checked in all revisions
		}
		return false
	}
	if r.Modern() {
		return false
	}
	switch {
	case below("params._meta"):
		return true // only the members that a method uses are read
	case method != mcp.MethodInitialize:
		return is("params.uri") // a subscription to a URI that is not absolute has no effect
	case below("params.capabilities"), below("params.clientInfo"):
		return true // null is absent, as is the name of a client
	}
	return is("params")
}

// decodingServer returns a server that finds every tool, prompt and resource that the requests name.
func decodingServer(t testing.TB) *server.Server {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	s.Limits.CallsPerSecond = -1
	must.Do(t, s.RegisterTool(mcp.Tool{Name: "any"}, func(context.Context,
		json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	}))
	server.AddPrompt(s, mcp.Prompt{Name: "any"}, func(context.Context, struct {
		A string `json:"a,omitempty"`
	}) (string, error) {
		return "x", nil
	}, server.CompleteFrom("a", "b"))
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "any:{+rest}", Name: "any"}, func(context.Context, struct {
		Rest string `json:"rest"`
	}) (string, error) {
		return "x", nil
	})
	return s
}

// placesIn returns the paths of all values in document, in a fixed order.
func placesIn(document map[string]any) (paths [][]string) {
	for _, name := range slices.Sorted(maps.Keys(document)) {
		paths = append(paths, []string{name})
		if object, ok := document[name].(map[string]any); ok {
			for _, below := range placesIn(object) {
				paths = append(paths, append([]string{name}, below...))
			}
		}
	}
	return paths
}

// replaceAt replaces the value at path in document, or removes it if value is empty.
func replaceAt(document map[string]any, path []string, value string) {
	for ; len(path) > 1; path = path[1:] {
		document = document[path[0]].(map[string]any)
	}
	if value == "" {
		delete(document, path[0])
		return
	}
	document[path[0]] = json.RawMessage(value)
}

// withoutNulls returns a message without the members of its params that are null, at any depth.
func withoutNulls(t *testing.T, raw []byte) []byte {
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	must.Do(t, decoder.Decode(&document))
	var remove func(value any)
	remove = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			maps.DeleteFunc(value, func(_ string, member any) bool { return member == nil })
			for _, member := range value {
				remove(member)
			}
		case []any:
			for _, element := range value {
				remove(element)
			}
		}
	}
	remove(document)
	return must.Get(json.Marshal(document))(t)
}

// FuzzFilePath (rule Y2) checks that a URI and a completion of a path lead only to the visible files below the
// directory of AddFS.
func FuzzFilePath(f *testing.F) {
	_, s := trap(f)
	l := connectLine(f, s)
	for _, path := range []string{
		"ok.txt", "%6fk.txt", "sub%2Fok.txt", "fine.txt", "../secret.txt", "%2e%2e%2fsecret.txt",
		"sub/../../secret.txt", "up/secret.txt", "absolute.txt", "relative.txt", ".hidden", "sub/.git/config",
		"..%5csecret.txt", "ok.txt%00", "//host/x", "C:/secret.txt", "ok.txt::$DATA", "%252e%252e/secret.txt", "sub/",
		"",
	} {
		f.Add(path)
	}
	names := []string{
		"ok.txt", "sub/ok.txt", "fine.txt", "sub/", "absolute.txt", "relative.txt", "up", "winding.txt", "chain.txt",
		"chain2.txt", "loop",
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !utf8.ValidString(path) {
			return // no JSON string
		}
		l := &line{&wiretest.Peer{T: t, Conn: l.Conn}}
		quoted := func(s string) string { return string(jsonrpc.AppendString(nil, s)) }
		raw, rejected := l.ask(mcp.MethodReadResource, `"uri":`+quoted("file:///d/"+path))
		var read mcp.ReadResourceResult
		if rejected == nil {
			err := json.Unmarshal(raw, &read)
			must.That(t, err == nil && len(read.Contents) == 1, "%q: %s, %v", path, raw, err)
			must.Equal(t, read.Contents[0].Text, "ok", path, raw)
		}
		raw, rejected = l.ask(mcp.MethodComplete,
			`"ref":{"type":"ref/resource","uri":"file:///d/{+path}"},"argument":{"name":"path","value":`+quoted(path)+
				`}`)
		must.That(t, rejected == nil, "%q: the completion fails: %v", path, rejected)
		var completed mcp.CompleteResult
		must.Do(t, json.Unmarshal(raw, &completed))
		for _, value := range completed.Completion.Values {
			must.That(t, slices.Contains(names, value) && strings.HasPrefix(value, path),
				"%q is completed to %q", path, value)
		}
	})
}
