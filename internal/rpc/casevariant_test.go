package rpc_test

import (
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

func TestCaseVariantFindsNamesThatDifferInCase(t *testing.T) {
	known := []string{"name", "arguments", "_meta", "task", "k"}
	for _, n := range []int{0, 7, 8, 30} { // members before the variant
		for _, tc := range []struct{ name, text string }{
			{`Name`, "Name"}, {`NAME`, "NAME"}, {`nAme`, "nAme"}, {`_Meta`, "_Meta"}, {`argumentſ`, "argumentſ"},
			{`\u004eame`, "Name"},
			// KELVIN SIGN folds to k
			{"tas\u212a", "tas\u212a"}, {"ta\u017f\u212a", "ta\u017f\u212a"}, {"\u212a", "\u212a"},
			{`\u212a`, "\u212a"}, {"K", "K"},
			{`name`, ""}, {`names`, ""}, {`nam`, ""}, {``, ""}, {`meta`, ""}, {`ñame`, ""}, {`n\u0061me`, ""},
		} {
			params := "{"
			for i := range n {
				params += fmt.Sprintf(`"%d":0,`, i)
			}
			params += `"` + tc.name + `":1}`
			m := must.Get(jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m","params":`+params+`}`),
				jsonrpc.Limits{}))(t)
			if got, ok := rpc.CaseVariant(&m.Params, known...); got != tc.text || ok != (tc.text != "") {
				t.Errorf("%s: got %q, %t, want %q", params, got, ok, tc.text)
			}
			got, ok := rpc.CaseVariant(&m.Params)
			must.CheckThat(t, !ok, "%s: %q is a variant, though no name is known", params, got)
		}
	}
}

// A known name is not a variant of another known name.
func TestCaseVariantIgnoresKnownNames(t *testing.T) {
	m := must.Get(jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m","params":{"uri":1,"URI":2,"Uri":3}}`), jsonrpc.Limits{}))(t)
	got, _ := rpc.CaseVariant(&m.Params, "URI", "uri")
	must.CheckEqual(t, got, "Uri", "want Uri")
}

// Each request is checked.
func TestCaseVariantAllocatesNothing(t *testing.T) {
	m := must.Get(jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m","params":{"name":1,"arguments":{},"_meta":{}}}`),
		jsonrpc.Limits{}))(t)
	found := false
	must.CheckEqual(t, testing.AllocsPerRun(100, func() {
		_, variant := rpc.CaseVariant(&m.Params, "name", "arguments", "_meta")
		found = found || variant
	}), 0)
	must.CheckThat(t, !found, "a variant is found")
}
