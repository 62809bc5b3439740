package revision_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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
		if got := revision.Negotiate(offered); got != want {
			t.Errorf("the answer to %q is %q, want %q", offered, got, want)
		}
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
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("Choose(%q) = %q, %v; want %q", tc.supported, got, ok, tc.want)
		}
	}
}

// Rule U5: a client must not fall back on an error that no legacy server returns.
func TestOnlyModernServersUseModernErrors(t *testing.T) {
	for code, want := range map[int64]bool{
		-32020: true, -32021: true, -32022: true,
		-32000: false, -32001: false, -32002: false, -32023: false, -32042: false,
		-32600: false, -32601: false, -32602: false, -32700: false, 0: false,
	} {
		if got := revision.IsModernError(code); got != want {
			t.Errorf("%d: %v, want %v", code, got, want)
		}
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
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled"`+params+`}`), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := revision.CancelledID(&m); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}
