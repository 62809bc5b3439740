package revision_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule J10: no peer receives a code that its revision does not have.
func TestDowngradeErrorConvertsCodes(t *testing.T) {
	data := json.RawMessage(`{"uri":"note://a"}`)
	for code, want := range map[int64]map[mcp.Revision]int64{
		mcp.CodeResourceNotFound: {
			mcp.V20260728: jsonrpc.CodeInvalidParams,
			mcp.V20251125: mcp.CodeResourceNotFound, mcp.V20250618: mcp.CodeResourceNotFound,
			mcp.V20250326: mcp.CodeResourceNotFound, mcp.V20241105: mcp.CodeResourceNotFound,
		},
		mcp.CodeURLElicitationRequired: {
			mcp.V20260728: jsonrpc.CodeInternalError, mcp.V20251125: mcp.CodeURLElicitationRequired,
			mcp.V20250618: jsonrpc.CodeInternalError, mcp.V20250326: jsonrpc.CodeInternalError, mcp.V20241105: jsonrpc.CodeInternalError,
		},
		jsonrpc.CodeInvalidParams: {
			mcp.V20260728: jsonrpc.CodeInvalidParams, mcp.V20251125: jsonrpc.CodeInvalidParams, mcp.V20250618: jsonrpc.CodeInvalidParams,
			mcp.V20250326: jsonrpc.CodeInvalidParams, mcp.V20241105: jsonrpc.CodeInvalidParams,
		},
	} {
		e := &jsonrpc.Error{Code: code, Message: "m", Data: data}
		for r, code := range want {
			got := revision.DowngradeError(r, e)
			if got.Code != code || got.Message != "m" || string(got.Data) != string(data) {
				t.Errorf("%d is reported to %s as %+v", e.Code, r, got)
			}
			if (got == e) != (code == e.Code) {
				t.Errorf("%d in %s: DowngradeError must copy exactly the errors that it changes", e.Code, r)
			}
			if code != mcp.CodeURLElicitationRequired { // not the data of this error
				if err := spec.ValidateMessage(r, jsonrpc.AppendError(nil, jsonrpc.IntID(1), got, false), ""); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
