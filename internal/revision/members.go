package revision

import (
	"encoding/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// WithResultType returns the JSON of a result with its resultType, or "complete" if the result has none.
func WithResultType(result json.RawMessage) json.RawMessage {
	if _, ok := jsonrpc.Get(result, "resultType"); ok {
		return result
	}
	return withMember(result, "resultType", []byte(`"complete"`))
}

// withMember returns a JSON object with one key added or replaced. A value that is nil or not an
// object counts as empty.
func withMember(object []byte, name string, value []byte) []byte {
	out := jsonrpc.AppendString(append(make([]byte, 0, len(object)+len(name)+len(value)+8), '{'), name)
	out = append(append(out, ':'), value...)
	for other, v := range jsonrpc.All(object) {
		if other != name {
			out = append(jsonrpc.AppendString(append(out, ','), other), ':')
			out = append(out, v...)
		}
	}
	return append(out, '}')
}

// selectMembers returns an object with the keys that both contain, with the values of selected in the order of
// object.
func selectMembers(object []byte, selected mcp.Meta) []byte {
	out := []byte{'{'}
	for name := range jsonrpc.All(object) {
		value, ok := selected[name]
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	return append(out, '}')
}
