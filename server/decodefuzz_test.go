package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/wiretest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func FuzzDecodeA(f *testing.F) { fuzzDecode(f, mcp.V20241105) }
func FuzzDecodeB(f *testing.F) { fuzzDecode(f, mcp.V20250326) }
func FuzzDecodeC(f *testing.F) { fuzzDecode(f, mcp.V20250618) }
func FuzzDecodeD(f *testing.F) { fuzzDecode(f, mcp.V20251125) }
func FuzzDecodeE(f *testing.F) { fuzzDecode(f, mcp.V20260728) }

// decodedRequests are the params of a valid request of each method that a client sends.
var decodedRequests = map[string]string{
	mcp.MethodInitialize:            `{"protocolVersion":"%s","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"experimental":{"x":{}}},"clientInfo":{"name":"c","version":"1","title":"C"}}`,
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
	mcp.MethodComplete:              `{"ref":{"type":"ref/prompt","name":"any"},"argument":{"name":"a","value":"b"},"context":{"arguments":{"b":"c"}}}`,
	mcp.MethodSetLevel:              `{"level":"info"}`,
}

// fuzzDecode replaces one value in a valid request of revision r. The server accepts the request if and only if it is valid
// for the official schema, except as [decodeExceptions] says.
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
		if value != "" && (!jsontext.Value(value).IsValid() || jsonrpc.Check([]byte(value), jsonrpc.Limits{MaxDepth: 50}) != nil) {
			return
		}
		replaceAt(document, path, value)
		raw, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		l := &line{&wiretest.Peer{T: t, Conn: connected.Conn}}
		if method == mcp.MethodInitialize {
			l = connectLine(t, s)
		}
		l.Send(string(raw))
		response := l.Receive()
		m, err := jsonrpc.Parse([]byte(response), jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Response {
			t.Fatalf("%s is answered with %s: %v", raw, response, err)
		}
		invalid := spec.ValidateMessage(r, raw, "")
		rejected := m.Err != nil
		if rejected == (invalid != nil) || decodeExceptions(r, method, path, value, rejected) {
			return
		}
		change := fmt.Sprintf("%s with %s set to %q", method, strings.Join(path, "."), value)
		if rejected {
			t.Fatalf("%s is valid, and the server rejects %s with %s", change, raw, response)
		}
		t.Fatalf("%s is invalid, and the server accepts it with %s: %v", change, response, invalid)
	})
}

// decodeExceptions reports whether the server may reject a valid request, or accept an invalid one, whose value at path was
// replaced.
func decodeExceptions(r mcp.Revision, method string, path []string, value string, rejected bool) bool {
	at := strings.Join(path, ".")
	is := func(places ...string) bool { return slices.Contains(places, at) }
	below := func(place string) bool { return at == place || strings.HasPrefix(at, place+".") }
	if rejected {
		switch {
		case is("params.name", "params.uri", "params.ref.name", "params.ref", "params.argument.name", "params.argument", "params.cursor", "params._meta.io.modelcontextprotocol/protocolVersion"):
			return true // the value is valid, and names nothing that the server has
		case below("params.arguments") && method == mcp.MethodGetPrompt:
			return true // the prompt has other arguments
		case is("params._meta.progressToken"):
			return strings.ContainsAny(value, ".eE") // a token is echoed as it is written, as an id is
		case is("params", "params._meta"):
			return true // the replacement can have any of these members
		case r < mcp.V20250618 && (below("params.context") || below("params.capabilities") || below("params.clientInfo")):
			return true // members of a later revision are checked in all revisions
		}
		return false
	}
	if (below("params.arguments") || below("params.context")) && strings.Contains(value, "null") {
		return true // some clients send null for no arguments, and for an absent one
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
	if err := s.RegisterTool(mcp.Tool{Name: "any"}, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	server.AddPrompt(s, mcp.Prompt{Name: "any"}, func(context.Context, struct {
		A string `json:"a,omitempty"`
	}) (string, error) {
		return "x", nil
	})
	server.CompletePrompt(s, "any", "a", server.CompleteFrom("b"))
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
