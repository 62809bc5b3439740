package revision

import (
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The error codes that not every revision has. The rest of the library uses the code of the
// revisions that have one.
//
//	resource not found        until 2025-11-25   later -32602, without a code of its own; receivers still accept
//	                                             the old code (2026-07-28, server/resources, Error Handling)
//	URL elicitation required  2025-11-25 only    otherwise -32603: other peers cannot use the URLs in it; since
//	                                             2026-07-28 a result asks for URL elicitations
var downgradedErrors = []struct {
	code        int64
	first, last mcp.Revision // both inclusive
	otherwise   int64
}{
	{mcp.CodeResourceNotFound, mcp.V20241105, mcp.V20251125, jsonrpc.CodeInvalidParams},
	{mcp.CodeURLElicitationRequired, mcp.V20251125, mcp.V20251125, jsonrpc.CodeInternalError},
}

// DowngradeError returns an error in the form that a peer of revision r can read. It
// returns e itself if nothing changes, and a changed copy otherwise.
func DowngradeError(r mcp.Revision, e *jsonrpc.Error) *jsonrpc.Error {
	for _, row := range downgradedErrors {
		if e.Code == row.code && (r < row.first || r > row.last) {
			return &jsonrpc.Error{Code: row.otherwise, Message: e.Message, Data: e.Data}
		}
	}
	return e
}
