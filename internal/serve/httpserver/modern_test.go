package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// openModern opens and serves a message of 2026-07-28 as postModern does.
func openModern(t *testing.T, body string, h http.Header) (*rpc.Call, *jsonrpc.Error) {
	t.Helper()
	ok := func(context.Context, *rpc.Call) (any, error) { return &mcp.EmptyResult{}, nil }
	s := &modern.Server{
		Engine: rpc.NewEngine(rpc.Handlers{
			mcp.MethodListTools:    ok,
			mcp.MethodCallTool:     ok,
			mcp.MethodReadResource: ok,
			mcp.MethodPing:         ok, // has a handler, but is not in this revision
		}, slog.New(slog.DiscardHandler)),
		Peers: &rpc.PeerCache{},
	}
	m := parseMessage(t, body)
	c, fault := s.NewCall(rpc.Sender{Binding: binding(h)}, m, classifyMessage(m, h))
	if fault == nil {
		fault = s.Begin(t.Context(), c, nil)
	}
	if fault != nil {
		return nil, fault
	}
	if _, err := s.Engine.Serve(t.Context(), c); err != nil {
		return nil, err.(*jsonrpc.Error)
	}
	return c, nil
}

func classifyMessage(m *jsonrpc.Message, h http.Header) revision.Class {
	return revision.Classify(revision.Input{Message: m, HTTP: true, Header: h[httpcodec.HeaderVersion]})
}

func parseMessage(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	must.Do(t, err, raw)
	return &m
}

// modernRequest returns a request whose _meta has the given version and capabilities, as
// JSON. An empty one is left out.
func modernRequest(method, version, capabilities, params string) string {
	var meta []string
	if version != "" {
		meta = append(meta, `"io.modelcontextprotocol/protocolVersion":`+version)
	}
	if capabilities != "" {
		meta = append(meta, `"io.modelcontextprotocol/clientCapabilities":`+capabilities)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%s}}}`, method, params,
		strings.Join(meta, ","))
}

func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// The conformance suite requires this order. Each row also has the faults of the rows after it.
// Rules T14, T15, T16, T19, J12.
func TestOpenReportsTheFirstFault(t *testing.T) {
	const unknown = "no/such/method"
	for _, tc := range []struct {
		fault string
		h     http.Header
		body  string
		code  int64
	}{
		{"version header missing", header("Mcp-Method", "x"), modernRequest(unknown, `"v998"`, "", ""),
			mcp.CodeHeaderMismatch},
		{"version header repeated", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderVersion,
			"2026-07-28"),
			modernRequest(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		// a later revision may have other metadata: its client needs the list of supported versions
		{"unknown version, params missing", header(httpcodec.HeaderVersion, "v999"),
			`{"jsonrpc":"2.0","id":1,"method":"no/such/method"}`, mcp.CodeUnsupportedVersion},
		{"unknown version, _meta is not an object", header(httpcodec.HeaderVersion, "v999"),
			`{"jsonrpc":"2.0","id":1,"method":"no/such/method","params":{"_meta":7}}`, mcp.CodeUnsupportedVersion},
		{"unknown version, _meta without a version", header(httpcodec.HeaderVersion, "v999"),
			modernRequest(unknown, "", "{}", ""), mcp.CodeUnsupportedVersion},
		{"unknown version, another form of version in _meta", header(httpcodec.HeaderVersion, "v999"),
			modernRequest(unknown, `{"v":999}`, "{}", ""), mcp.CodeUnsupportedVersion},
		{"unknown version, _meta without capabilities", header(httpcodec.HeaderVersion, "v999"),
			modernRequest(unknown, `"v999"`, "", ""), mcp.CodeUnsupportedVersion},
		{"unknown version, capabilities are not an object", header(httpcodec.HeaderVersion, "v999"),
			modernRequest(unknown, `"v999"`, "[]", ""), mcp.CodeUnsupportedVersion},
		{"params missing", header(httpcodec.HeaderVersion, "2026-07-28"),
			`{"jsonrpc":"2.0","id":1,"method":"no/such/method"}`, jsonrpc.CodeInvalidParams},
		{"_meta is not an object", header(httpcodec.HeaderVersion, "2026-07-28"),
			`{"jsonrpc":"2.0","id":1,"method":"no/such/method","params":{"_meta":7}}`, jsonrpc.CodeInvalidParams},
		{"_meta without a version", header(httpcodec.HeaderVersion, "2026-07-28"), modernRequest(unknown, "", "{}", ""),
			jsonrpc.CodeInvalidParams},
		{"version is not a string", header(httpcodec.HeaderVersion, "2026-07-28"),
			modernRequest(unknown, "20260728", "{}", ""), jsonrpc.CodeInvalidParams},
		{"_meta without capabilities", header(httpcodec.HeaderVersion, "2026-07-28"),
			modernRequest(unknown, `"v998"`, "", ""), jsonrpc.CodeInvalidParams},
		{"capabilities are not an object", header(httpcodec.HeaderVersion, "2026-07-28"),
			modernRequest(unknown, `"v998"`, "[]", ""), jsonrpc.CodeInvalidParams},
		{"unknown versions differ", header(httpcodec.HeaderVersion, "v999"), modernRequest(unknown, `"v998"`, "{}", ""),
			mcp.CodeHeaderMismatch},
		{"unknown version in the body", header(httpcodec.HeaderVersion, "2026-07-28"),
			modernRequest(unknown, `"v998"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"legacy version in the header", header(httpcodec.HeaderVersion, "2025-11-25"),
			modernRequest(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"empty version header", header(httpcodec.HeaderVersion, ""), modernRequest(unknown, `"2026-07-28"`, "{}", ""),
			mcp.CodeHeaderMismatch},
		{"unknown version", header(httpcodec.HeaderVersion, "v999"), modernRequest(unknown, `"v999"`, "{}", ""),
			mcp.CodeUnsupportedVersion},
		{"legacy version", header(httpcodec.HeaderVersion, "2025-11-25"),
			modernRequest(unknown, `"2025-11-25"`, "{}", ""),
			mcp.CodeUnsupportedVersion},
		{"method header missing", header(httpcodec.HeaderVersion, "2026-07-28"),
			modernRequest(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"methods differ", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "tools/call"),
			modernRequest(unknown, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"methods differ in case", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "TOOLS/LIST"),
			modernRequest(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), mcp.CodeHeaderMismatch},
		{"method header repeated", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "tools/list",
			httpcodec.HeaderMethod, "tools/list"), modernRequest(mcp.MethodListTools, `"2026-07-28"`, "{}", ""),
			mcp.CodeHeaderMismatch},
		{"unknown method", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, unknown),
			modernRequest(unknown, `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"legacy method", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "ping"),
			modernRequest("ping", `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"initialize", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "initialize"),
			modernRequest("initialize", `"2026-07-28"`, "{}", ""), jsonrpc.CodeMethodNotFound},
		{"no fault", header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, "tools/list"),
			modernRequest(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), 0},
		{"no fault, with white space", header(httpcodec.HeaderVersion, " 2026-07-28\t", httpcodec.HeaderMethod,
			" tools/list "), modernRequest(mcp.MethodListTools, `"2026-07-28"`, "{}", ""), 0},
	} {
		_, err := openModern(t, tc.body, tc.h)
		var code int64
		if err != nil {
			code = err.Code
		}
		must.CheckEqual(t, code, tc.code, tc.fault, err)
	}
}

// Rules T16, T17.
func TestNameHeaderMustEqualTheBody(t *testing.T) {
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
		// decodes to greet
		{mcp.MethodCallTool, `"name":"=?base64?Z3JlZXQ=?=",`, []string{"=?base64?Z3JlZXQ=?="}, false},
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
		{mcp.MethodListTools, ``, []string{"ignored"}, true}, // the method has no name
	} {
		h := header(httpcodec.HeaderVersion, "2026-07-28", httpcodec.HeaderMethod, tc.method)
		if tc.names != nil {
			h[httpcodec.HeaderName] = tc.names
		}
		_, err := openModern(t, modernRequest(tc.method, `"2026-07-28"`, "{}", tc.params), h)
		must.CheckThat(t, (err == nil) == tc.ok && (err == nil || err.Code == mcp.CodeHeaderMismatch),
			"%s with %s and Mcp-Name %q: %v", tc.method, tc.params, tc.names, err)
	}
}

// Rule T14.
func TestNotificationMustDeclareASupportedVersion(t *testing.T) {
	const bare = `{"jsonrpc":"2.0","method":"notifications/x"}`
	meta := func(v string) string {
		return `{"jsonrpc":"2.0","method":"notifications/x",` +
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + v + `"}}}`
	}
	for _, tc := range []struct {
		h    http.Header
		body string
		code int64
	}{
		{header(httpcodec.HeaderVersion, "2026-07-28"), bare, 0},
		{header(httpcodec.HeaderVersion, "2026-07-28"), meta("2026-07-28"), 0},
		{header(httpcodec.HeaderVersion, "2026-07-28"), meta("2025-11-25"), mcp.CodeHeaderMismatch},
		{header(), meta("2026-07-28"), mcp.CodeHeaderMismatch},
		{header(httpcodec.HeaderVersion, "v999"), bare, mcp.CodeUnsupportedVersion},
		{header(httpcodec.HeaderVersion, "2025-11-25"), meta("2025-11-25"), mcp.CodeUnsupportedVersion},
	} {
		var code int64
		if fault := classifyMessage(parseMessage(t, tc.body), tc.h).Fault; fault != nil {
			code = fault.Wire().Code
		}
		must.CheckEqual(t, code, tc.code, tc.h, tc.body)
	}
}

func TestStatusDependsOnTheErrorCode(t *testing.T) {
	for code, want := range map[int64]int{
		jsonrpc.CodeParseError:     http.StatusBadRequest,
		jsonrpc.CodeInvalidRequest: http.StatusBadRequest,
		mcp.CodeHeaderMismatch:     http.StatusBadRequest,
		mcp.CodeMissingCapability:  http.StatusBadRequest,
		mcp.CodeUnsupportedVersion: http.StatusBadRequest,
		jsonrpc.CodeMethodNotFound: http.StatusNotFound,
		jsonrpc.CodeInvalidParams:  http.StatusOK,
		jsonrpc.CodeInternalError:  http.StatusOK,
		-32000:                     http.StatusOK,
		7:                          http.StatusOK,
	} {
		o := outcomeOf(revision.Modern, &rpc.Call{Served: true}, &jsonrpc.Error{Code: code})
		must.CheckEqual(t, o.status, want, code)
	}
}

func TestAcceptHeaderFollowsRFC9110(t *testing.T) {
	for accept, want := range map[string]accepted{
		"application/json, text/event-stream": {true, true},
		"text/event-stream":                   {false, true},
		"application/json":                    {true, false},
		"*/*":                                 {true, true},
		"text/*":                              {false, true},
		"APPLICATION/JSON;q=0.9 , Text/Event-Stream": {true, true},
		"application/json;q=0, */*;q=0.1":            {true, true}, // by range: qualities are not compared
		"text/event-stream;q=0":                      {false, false},
		"text/event-stream; q=0.000":                 {false, false},
		"text/html":                                  {false, false},
		"":                                           {false, false},
		"application/jsonx":                          {false, false},
	} {
		h := http.Header{"Accept": {accept}}
		must.CheckEqual(t, readAccept(h), want, accept)
	}
	for _, h := range []http.Header{{}, {"Accept": {"application/json", "text/event-stream"}}} {
		must.CheckEqual(t, readAccept(h), accepted{true, true}, h)
	}
}

// An owner without requests uses no memory, since a client can have any number of addresses.
func TestLimiterForgetsIdleOwners(t *testing.T) {
	s := &Server{PerAddress: 3}
	var busy []changes.Owner
	has := make(map[changes.Owner]int)
	for range 10_000 {
		if len(busy) > 0 && rand.IntN(2) == 0 {
			i := rand.IntN(len(busy))
			s.stateless.release(busy[i])
			if has[busy[i]]--; has[busy[i]] == 0 {
				delete(has, busy[i])
			}
			busy = slices.Delete(busy, i, i+1)
		} else {
			address := strconv.Itoa(rand.IntN(20))
			o := changes.OwnerOf(principal.Anonymous, address)
			_, by, above := s.acquire(mcp.MethodCallTool, &rpc.Sender{Source: address})
			if by != o || (above == nil) != (has[o] < 3) {
				t.Fatalf("acquire for %v, which has %d, returned %v and %v", o, has[o], by, above)
			} else if above == nil {
				has[o]++
				busy = append(busy, o)
			}
		}
		must.That(t, maps.Equal(s.stateless.counts, has), "the limiter has %v, want %v", s.stateless.counts, has)
	}
}
