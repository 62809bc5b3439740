package revision

import (
	"encoding/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// HandLog gives the message of a notifications/message to take, which may be nil.
// One that is malformed, or of a level that there is not, is to be ignored.
func HandLog(m *jsonrpc.Message, take func(mcp.LoggingMessageParams)) {
	if take == nil {
		return
	}
	var params mcp.LoggingMessageParams
	if json.Unmarshal(m.Raw, &params) == nil && params.Level.Known() {
		take(params)
	}
}
