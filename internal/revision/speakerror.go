package revision

import (
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// What each error is called where. In here it has the code of the revisions that have
// one of its own for it.
//
//	resource not found        until 2025-11-25   -32602 later: the code went to those that mean nothing, and receivers accept it
//	                                             still (2026-07-28, server/resources, Error Handling)
//	URL elicitation required  2025-11-25 only    -32603: other peers do not know what to do with the URLs in it, and since
//	                                             2026-07-28 they are asked for in a result
var spokenErrors = []struct {
	code        int64
	first, last mcp.Revision // both inclusive
	elsewhere   int64
}{
	{mcp.CodeResourceNotFound, mcp.V20241105, mcp.V20251125, jsonrpc.CodeInvalidParams},
	{mcp.CodeURLElicitationRequired, mcp.V20251125, mcp.V20251125, jsonrpc.CodeInternalError},
}

// SpeakError returns an error as a peer of revision r can read it: the error itself
// when there is nothing to change, a changed copy otherwise.
func SpeakError(r mcp.Revision, e *jsonrpc.Error) *jsonrpc.Error {
	for _, row := range spokenErrors {
		if e.Code == row.code && (r < row.first || r > row.last) {
			return &jsonrpc.Error{Code: row.elsewhere, Message: e.Message, Data: e.Data}
		}
	}
	return e
}
