package revision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}`

// The messages of the tests of Classify.
const (
	bareRequest   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	modernRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
	modernPing    = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`
	legacyMeta    = `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`
	futureMeta = `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2199-01-01"}}}`
	numberMeta = `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}}`
	otherMeta    = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`
	metaNoObject = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":7}}`
	initialize   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`
	discover     = `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`
	notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	response     = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

func legacy(r mcp.Revision) revision.Class { return revision.Class{Era: revision.Legacy, Revision: r} }

func modern(r mcp.Revision) revision.Class { return revision.Class{Era: revision.Modern, Revision: r} }

func faulty(c revision.Class, kind revision.FaultKind, header, body string) revision.Class {
	c.Fault = &revision.Fault{Kind: kind, Header: header, Body: body}
	return c
}

func check(t *testing.T, name, message string, in revision.Input, want revision.Class) {
	t.Helper()
	if message != "" {
		m := must.Get(jsonrpc.Parse([]byte(message), jsonrpc.Limits{}))(t)
		in.Message = &m
	}
	got := revision.Classify(in)
	got.Metadata = revision.Metadata{} // see TestClassifyReadsMetadata
	must.CheckEqual(t, cmp.Diff(want, got), "", name, message)
}

func TestClassifyDecidesTheEraOverHTTP(t *testing.T) {
	none := []string(nil)
	for _, tc := range []struct {
		name    string
		header  []string
		session bool
		message string // "": there is no single message
		want    revision.Class
	}{
		{"handshake", none, false, initialize, legacy("")},
		{"handshake with a version", []string{"2025-11-25"}, false, initialize, legacy("2025-11-25")},
		{"request of a session", []string{"2025-11-25"}, true, bareRequest, legacy("2025-11-25")},
		{"request of a session without a version", none, true, bareRequest, legacy("")},
		{"request of a session with other _meta", []string{"2025-06-18"}, true, otherMeta, legacy("2025-06-18")},
		{"notification of a session", []string{"2025-11-25"}, true, notification, legacy("2025-11-25")},
		{"response of a session", []string{"2025-11-25"}, true, response, legacy("2025-11-25")},
		{"request of a session with an unknown version", []string{"v999.0.0"}, true, bareRequest,
			faulty(legacy("v999.0.0"), revision.Unsupported, "v999.0.0", "")},
		{"no headers", none, false, bareRequest, legacy("")},
		{"server/discover without metadata", none, false, discover, legacy("")},
		{"_meta is not an object", none, false, metaNoObject, legacy("")},
		{"empty version", []string{""}, false, bareRequest, faulty(legacy(""), revision.Unsupported, "", "")},
		{"2024-11-05", []string{"2024-11-05"}, false, bareRequest, legacy("2024-11-05")},
		{"two legacy versions", []string{"2025-11-25", "2025-11-25"}, true, bareRequest,
			faulty(legacy("2025-11-25"), revision.HeaderRepeated, "", "")},

		{"modern request", []string{"2026-07-28"}, false, modernRequest, modern("2026-07-28")},
		{"modern request with white space", []string{" 2026-07-28\t"}, false, modernRequest, modern("2026-07-28")},
		{"modern request with a session id", []string{"2026-07-28"}, true, modernRequest, modern("2026-07-28")},
		{"header without _meta", []string{"2026-07-28"}, false, bareRequest, modern("2026-07-28")},
		{"header without _meta in a session", []string{"2026-07-28"}, true, bareRequest, modern("2026-07-28")},
		{"header with initialize", []string{"2026-07-28"}, false, initialize, modern("2026-07-28")},
		{"_meta without a header", none, false, modernRequest,
			faulty(modern("2026-07-28"), revision.HeaderMissing, "", "")},
		{"_meta with two headers", []string{"2026-07-28", "2026-07-28"}, false, modernRequest,
			faulty(modern("2026-07-28"), revision.HeaderRepeated, "", "")},
		{"_meta and header differ", []string{"2025-11-25"}, false, modernRequest,
			faulty(modern("2026-07-28"), revision.HeaderMismatch, "2025-11-25", "2026-07-28")},
		{"_meta and header differ in a session", []string{"2025-11-25"}, true, modernRequest,
			faulty(modern("2026-07-28"), revision.HeaderMismatch, "2025-11-25", "2026-07-28")},
		{"_meta and empty header", []string{""}, false, modernRequest,
			faulty(modern("2026-07-28"), revision.HeaderMismatch, "", "2026-07-28")},
		{"version is not a string", none, false, numberMeta, faulty(modern(""), revision.HeaderMissing, "", "")},
		{"legacy version in _meta", []string{"2025-11-25"}, false, legacyMeta,
			faulty(modern("2025-11-25"), revision.Unsupported, "2025-11-25", "2025-11-25")},
		{"removed method", []string{"2026-07-28"}, false, modernPing, modern("2026-07-28")},
		{"unknown version", []string{"v999.0.0"}, false, bareRequest,
			faulty(modern("v999.0.0"), revision.Unsupported, "v999.0.0", "")},
		{"future version", []string{"2027-01-01"}, false, initialize,
			faulty(modern("2027-01-01"), revision.Unsupported, "2027-01-01", "")},
		{"modern notification", []string{"2026-07-28"}, false, notification, modern("2026-07-28")},
		{"modern response", []string{"2026-07-28"}, false, response, modern("2026-07-28")},

		{"no message, no version", none, true, "", legacy("")},
		{"no message, legacy version", []string{"2025-03-26"}, true, "", legacy("2025-03-26")},
		{"no message, modern version", []string{"2026-07-28"}, true, "", modern("2026-07-28")},
		{"no message, unknown version", []string{"v999"}, false, "",
			faulty(legacy("v999"), revision.Unsupported, "v999", "")},
	} {
		check(t, tc.name, tc.message, revision.Input{HTTP: true, Header: tc.header, Session: tc.session}, tc.want)
	}
}

func TestClassifyDecidesTheEraOnAStream(t *testing.T) {
	for _, tc := range []struct {
		name    string
		agreed  mcp.Revision
		message string
		want    revision.Class
	}{
		{"request before the handshake", "", bareRequest, legacy("")},
		{"handshake", "", initialize, legacy("")},
		{"request of a session", "2025-06-18", bareRequest, legacy("2025-06-18")},
		{"request of a session with other _meta", "2025-06-18", otherMeta, legacy("2025-06-18")},
		{"_meta is not an object", "2025-06-18", metaNoObject, legacy("2025-06-18")},
		{"response", "2025-06-18", response, legacy("2025-06-18")},
		{"batch", "2025-03-26", "", legacy("2025-03-26")},
		{"modern request", "", modernRequest, modern("2026-07-28")},
		{"modern request on the connection of a session", "2025-11-25", modernRequest, modern("2026-07-28")},
		{"removed method", "", modernPing, modern("2026-07-28")},
		{"server/discover without metadata", "", discover, faulty(modern(""), revision.Unsupported, "", "")},
		{"version is not a string", "", numberMeta, faulty(modern(""), revision.Unsupported, "", "")},
		{"legacy version in _meta", "", legacyMeta, faulty(modern("2025-11-25"), revision.Unsupported, "",
			"2025-11-25")},
		{"future version in _meta", "", futureMeta, faulty(modern("2199-01-01"), revision.Unsupported, "",
			"2199-01-01")},
	} {
		check(t, tc.name, tc.message, revision.Input{Agreed: tc.agreed}, tc.want)
	}
}

func TestClassifyReadsMetadata(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "n"}, "example.com/other": 1,
		"io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 7, "io.modelcontextprotocol/logLevel": "info"}}}`),
		jsonrpc.Limits{})
	must.Do(t, err)
	want := revision.Metadata{
		Version: []byte(`"2026-07-28"`), ClientInfo: []byte(`{"name": "n"}`), ClientCapabilities: []byte("{}"),
		ProgressToken: []byte("7"), LogLevel: []byte(`"info"`),
	}
	must.CheckEqual(t, cmp.Diff(want, revision.Classify(revision.Input{Message: &m}).Metadata), "")
}

func TestFaultsOfModernMessagesHaveErrors(t *testing.T) {
	for _, tc := range []struct {
		fault revision.Fault
		code  int64
		text  string
	}{
		{revision.Fault{Kind: revision.HeaderMissing}, mcp.CodeHeaderMismatch,
			"header mismatch: the Mcp-Protocol-Version header is required"},
		{revision.Fault{Kind: revision.HeaderRepeated}, mcp.CodeHeaderMismatch,
			"header mismatch: the Mcp-Protocol-Version header must occur once"},
		{revision.Fault{Kind: revision.HeaderMismatch, Header: "2025-11-25", Body: "2026-07-28"},
			mcp.CodeHeaderMismatch,
			`header mismatch: the Mcp-Protocol-Version header "2025-11-25" must equal the protocol version ` +
				`"2026-07-28" in _meta`},
		{revision.Fault{Kind: revision.Unsupported, Header: "v999"}, mcp.CodeUnsupportedVersion,
			"unsupported protocol version"},
	} {
		if e := tc.fault.Wire(); e.Code != tc.code || e.Message != tc.text {
			t.Errorf("%+v: error %d %q, want %d %q", tc.fault, e.Code, e.Message, tc.code, tc.text)
		}
	}
}

// A call over HTTP classifies its message on the hot path.
func TestClassifyDoesNotAllocate(t *testing.T) {
	m := must.Get(jsonrpc.Parse([]byte(modernRequest), jsonrpc.Limits{}))(t)
	header := []string{"2026-07-28"}
	if n := testing.AllocsPerRun(100, func() {
		revision.Classify(revision.Input{Message: &m, HTTP: true, Header: header})
	}); n > 0 {
		t.Errorf("Classify allocates %v times", n)
	}
}

func TestNegotiateAcceptsLegacyOffers(t *testing.T) {
	for offered, want := range map[mcp.Revision]mcp.Revision{
		mcp.V20241105: mcp.V20241105,
		mcp.V20250326: mcp.V20250326,
		mcp.V20250618: mcp.V20250618,
		mcp.V20251125: mcp.V20251125,
		mcp.V20260728: mcp.V20251125,
		"2027-01-01":  mcp.V20251125,
		"2024-10-07":  mcp.V20251125,
		"":            mcp.V20251125,
		"v999.0.0":    mcp.V20251125,
	} {
		must.CheckEqual(t, revision.Negotiate(offered), want, offered)
	}
}

func TestChooseReturnsTheNewestCommonRevision(t *testing.T) {
	for _, tc := range []struct {
		supported []string
		want      mcp.Revision
	}{
		{[]string{"2024-11-05", "2026-07-28", "2025-11-25"}, mcp.V20260728},
		{[]string{"2024-11-05", "2025-03-26", "2099-01-01"}, mcp.V20250326},
		{[]string{"2099-01-01", ""}, ""},
		{nil, ""},
	} {
		got, ok := revision.Choose(tc.supported)
		must.CheckEqual(t, got, tc.want, tc.supported)
		must.CheckEqual(t, ok, tc.want != "", tc.supported)
	}
}

// Rule U5: a client must not fall back on an error that no legacy server returns.
func TestOnlyModernServersUseModernErrors(t *testing.T) {
	for code, want := range map[int64]bool{
		-32020: true, -32021: true, -32022: true,
		-32000: false, -32001: false, -32002: false, -32023: false, -32042: false,
		-32600: false, -32601: false, -32602: false, -32700: false, 0: false,
	} {
		must.CheckEqual(t, revision.IsModernError(code), want, code)
	}
}

// Rule J15: the receiver ignores a malformed notification.
func TestCancelledIDIsZeroForMalformedMessages(t *testing.T) {
	for params, want := range map[string]jsonrpc.ID{
		`,"params":{"requestId":7}`:                jsonrpc.IntID(7),
		`,"params":{"requestId":"7"}`:              jsonrpc.StringID("7"),
		`,"params":{"requestId":9007199254740993}`: jsonrpc.IntID(9007199254740993),
		`,"params":{"requestId":null}`:             {},
		`,"params":{"requestId":1.5}`:              {},
		`,"params":{"requestId":{}}`:               {},
		`,"params":{}`:                             {},
		``:                                         {},
	} {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled"`+params+`}`),
			jsonrpc.Limits{})
		must.Do(t, err)
		must.CheckEqual(t, revision.CancelledID(&m), want, params)
	}
}
