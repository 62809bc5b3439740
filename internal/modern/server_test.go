package modern

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func newServer() *Server {
	ok := func(context.Context, *rpc.Call) rpc.Outcome { return rpc.Outcome{Result: &mcp.EmptyResult{}} }
	return &Server{
		Engine: rpc.NewEngine(map[string]rpc.Handler{
			mcp.MethodListTools:    ok,
			mcp.MethodCallTool:     ok,
			mcp.MethodReadResource: ok,
			mcp.MethodPing:         ok, // bound, and not in this revision
		}, slog.New(slog.DiscardHandler)),
		Peers:    &rpc.Peers{},
		Identity: []byte(`{"name":"s","version":"1"}`),
	}
}

func parse(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return &m
}

// request is a request whose _meta has the given version and capabilities, as JSON.
func request(method, version, capabilities, params string) string {
	var meta []string
	if version != "" {
		meta = append(meta, `"io.modelcontextprotocol/protocolVersion":`+version)
	}
	if capabilities != "" {
		meta = append(meta, `"io.modelcontextprotocol/clientCapabilities":`+capabilities)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%s}}}`, method, params, strings.Join(meta, ","))
}

func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

const headerVersion = revision.HeaderVersion

// classify classifies a message that came with h, or without headers if h is nil.
func classify(m *jsonrpc.Message, h http.Header) revision.Class {
	return revision.Classify(revision.Input{Message: m, HTTP: h != nil, Header: h[headerVersion]})
}

func open(t *testing.T, s *Server, raw string, who principal.Principal, h http.Header) (*rpc.Call, *jsonrpc.Error) {
	t.Helper()
	return openMessage(t, s, parse(t, raw), who, h)
}

func openMessage(t *testing.T, s *Server, m *jsonrpc.Message, who principal.Principal, h http.Header) (*rpc.Call, *jsonrpc.Error) {
	t.Helper()
	return s.Open(t.Context(), m, classify(m, h), who, h)
}

// The order in which faults are reported is the one that satisfies every probe of
// the conformance suite: each row has all the faults of the rows below it too.
func TestT14T15T16T19J12FaultsAreReportedInOrder(t *testing.T) {
	const unknown = "no/such/method"
	for _, tc := range []struct {
		fault string
		h     http.Header
		body  string
		code  int64
	}{
		{"no version header", header("Mcp-Method", "x"), request(unknown, `"v998"`, "", ""), mcp.CodeHeaderMismatch},
		{"two version headers", header(headerVersion, "2026-07-28", headerVersion, "2026-07-28"), request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"no params", header(headerVersion, "v999"), `{"jsonrpc":"2.0","id":1,"method":"no/such/method"}`, jsonrpc.CodeInvalidParams},
		{"_meta is no object", header(headerVersion, "v999"), `{"jsonrpc":"2.0","id":1,"method":"no/such/method","params":{"_meta":7}}`, jsonrpc.CodeInvalidParams},
		{"no version in _meta", header(headerVersion, "v999"), request(unknown, "", "{}", ""), jsonrpc.CodeInvalidParams},
		{"a version that is no string", header(headerVersion, "v999"), request(unknown, "20260728", "{}", ""), jsonrpc.CodeInvalidParams},
		{"no capabilities", header(headerVersion, "v999"), request(unknown, `"v998"`, "", ""), jsonrpc.CodeInvalidParams},
		{"capabilities are no object", header(headerVersion, "v999"), request(unknown, `"v998"`, "[]", ""), jsonrpc.CodeInvalidParams},
		{"another version in the header", header(headerVersion, "v999"), request(unknown, `"v998"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"another version in the body", header(headerVersion, "2026-07-28"), request(unknown, `"v998"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"a version of the legacy era in the header", header(headerVersion, "2025-11-25"), request(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"an empty version header", header(headerVersion, ""), request(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"an unknown version", header(headerVersion, "v999"), request(unknown, `"v999"`, "{}", ""), mcp.CodeUnsupportedVersion},
		{"a version of the legacy era", header(headerVersion, "2025-11-25"), request(unknown, `"2025-11-25"`, "{}", ""), mcp.CodeUnsupportedVersion},
		{"no method header", header(headerVersion, "2026-07-28"), request(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"another method in the header", header(headerVersion, "2026-07-28", HeaderMethod, "tools/call"), request(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"the method in another case", header(headerVersion, "2026-07-28", HeaderMethod, "TOOLS/LIST"), request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"two method headers", header(headerVersion, "2026-07-28", HeaderMethod, "tools/list", HeaderMethod, "tools/list"), request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"an unknown method", header(headerVersion, "2026-07-28", HeaderMethod, unknown), request(unknown, `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"a method of the legacy era", header(headerVersion, "2026-07-28", HeaderMethod, "ping"), request("ping", `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"initialize", header(headerVersion, "2026-07-28", HeaderMethod, "initialize"), request("initialize", `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"none", header(headerVersion, "2026-07-28", HeaderMethod, "tools/list"), request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), 0},
		{"none, with spaces around", header(headerVersion, " 2026-07-28\t", HeaderMethod, " tools/list "), request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), 0},
	} {
		_, err := open(t, newServer(), tc.body, principal.Anonymous, tc.h)
		var code int64
		if err != nil {
			code = err.Code
		}
		if code != tc.code {
			t.Errorf("%s: %v, want code %d", tc.fault, err, tc.code)
		}
	}
}

// T16, T17: Mcp-Name mirrors what the params name.
func TestT16NameHeaderMirrorsTheBody(t *testing.T) {
	for _, tc := range []struct {
		method, params string
		names          []string
		ok             bool
	}{
		{mcp.MethodCallTool, `"name":"greet",`, []string{"greet"}, true},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"  greet\t"}, true},
		{mcp.MethodCallTool, `"name":"gr\u0065et",`, []string{"greet"}, true},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"=?base64?Z3JlZXQ=?="}, true},
		{mcp.MethodCallTool, `"name":"grüß",`, []string{"=?base64?Z3LDvMOf?="}, true},
		{mcp.MethodCallTool, `"name":"=?base64?Z3JlZXQ=?=",`, []string{"=?base64?Z3JlZXQ=?="}, false}, // it means greet
		{mcp.MethodCallTool, `"name":"=?base64?",`, []string{"=?base64?"}, true},
		{mcp.MethodCallTool, `"name":"greet",`, nil, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"greet", "greet"}, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"Greet"}, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"gree"}, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"=?base64?Z3JlZXQ?="}, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{"=?BASE64?Z3JlZXQ=?="}, false},
		{mcp.MethodCallTool, `"name":"grüß",`, []string{"grüß"}, false},
		{mcp.MethodCallTool, `"name":"greet",`, []string{""}, false},
		{mcp.MethodReadResource, `"uri":"file:///a%20b",`, []string{"file:///a%20b"}, true},
		{mcp.MethodReadResource, `"uri":"file:///a%20b",`, []string{"file:///a b"}, false},
		{mcp.MethodReadResource, `"uri":"file:///a",`, nil, false},
		{mcp.MethodListTools, ``, nil, true},
		{mcp.MethodListTools, ``, []string{"whatever"}, true}, // nothing is mirrored
	} {
		h := header(headerVersion, "2026-07-28", HeaderMethod, tc.method)
		if tc.names != nil {
			h[HeaderName] = tc.names
		}
		_, err := open(t, newServer(), request(tc.method, `"2026-07-28"`, "{}", tc.params), principal.Anonymous, h)
		if (err == nil) != tc.ok || err != nil && err.Code != mcp.CodeHeaderMismatch {
			t.Errorf("%s with %s and Mcp-Name %q: %v", tc.method, tc.params, tc.names, err)
		}
	}
}

func TestUnsupportedVersionErrorListsWhatDiscoverLists(t *testing.T) {
	_, err := open(t, newServer(), request(mcp.MethodListTools, `"2199-01-01"`, "{}", ""), principal.Anonymous, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	var data mcp.UnsupportedVersionData
	if err := json.Unmarshal(err.Data, &data); err != nil {
		t.Fatal(err)
	}
	want := mcp.UnsupportedVersionData{Supported: Discover(mcp.ServerCapabilities{}, "", mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate}).SupportedVersions, Requested: "2199-01-01"}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Contains(data.Supported, "2026-07-28") {
		t.Errorf("supported: %q", data.Supported)
	}
}

// J13: what a client declared on one request is not remembered for the next.
func TestJ13CapabilitiesAreThoseOfTheRequest(t *testing.T) {
	s := newServer()
	for _, tc := range []struct {
		capabilities string
		sampling     bool
	}{{`{"sampling":{}}`, true}, {`{}`, false}, {`{"sampling":{}}`, true}} {
		c, err := open(t, s, request(mcp.MethodListTools, `"2026-07-28"`, tc.capabilities, ""), principal.Anonymous, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Peer.Capabilities.Sampling != nil; got != tc.sampling {
			t.Errorf("%s: sampling %v", tc.capabilities, got)
		}
	}
}

func TestRequestMetadataIsRead(t *testing.T) {
	who, err := principal.New("https://issuer.example", "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	raw := `{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"cursor":"c","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`
	c, fault := open(t, newServer(), raw, who, nil)
	if fault != nil {
		t.Fatal(fault)
	}
	if c.Method != mcp.MethodListTools || c.ID != jsonrpc.StringID("x") || c.Revision != mcp.V20260728 || c.Principal != who ||
		c.ProgressToken != jsonrpc.StringID("p") || c.Peer.Info.Name != "n" || c.Stream != nil {
		t.Errorf("%+v", c)
	}
	if cursor, _ := c.Params.Get("cursor"); string(cursor) != `"c"` {
		t.Errorf("cursor %s", cursor)
	}
	for _, bad := range []string{`"progressToken":1.5`, `"progressToken":null`, `"io.modelcontextprotocol/clientInfo":"n"`, `"io.modelcontextprotocol/clientInfo":{"name":7}`} {
		m := parse(t, strings.Replace(request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), `"_meta":{`, `"_meta":{`+bad+`,`, 1))
		if _, err := openMessage(t, newServer(), m, who, nil); err == nil || err.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestT14NotificationHasAVersionThatIsOurs(t *testing.T) {
	const bare = `{"jsonrpc":"2.0","method":"notifications/x"}`
	meta := func(v string) string {
		return `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + v + `"}}}`
	}
	for _, tc := range []struct {
		h    http.Header
		body string
		code int64
	}{
		{header(headerVersion, "2026-07-28"), bare, 0},
		{header(headerVersion, "2026-07-28"), meta("2026-07-28"), 0},
		{header(headerVersion, "2026-07-28"), meta("2025-11-25"), mcp.CodeHeaderMismatch},
		{header(), meta("2026-07-28"), mcp.CodeHeaderMismatch},
		{header(headerVersion, "v999"), bare, mcp.CodeUnsupportedVersion},
		{header(headerVersion, "2025-11-25"), meta("2025-11-25"), mcp.CodeUnsupportedVersion},
	} {
		var code int64
		if fault := classify(parse(t, tc.body), tc.h).Fault; fault != nil {
			code = fault.Wire().Code
		}
		if code != tc.code {
			t.Errorf("%v, %s: error %d, want %d", tc.h, tc.body, code, tc.code)
		}
	}
}

func TestServeAnswersWithOneMessage(t *testing.T) {
	s := newServer()
	for body, want := range map[string]string{
		request(mcp.MethodListTools, `"2026-07-28"`, "{}", ""): `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}`,
		request("nobody", `"2026-07-28"`, "{}", ""):            `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method \"nobody\" is not available in revision 2026-07-28 of this server"}}`,
	} {
		m := parse(t, body)
		got := s.Serve(t.Context(), []byte("x"), m, classify(m, nil), principal.Anonymous, nil, &rpc.Inflight{})
		if diff := cmp.Diff("x"+want, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
