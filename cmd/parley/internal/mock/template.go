package mock

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/jsonrpc"
)

// maxExpanded is the limit of the values that references in one result are replaced by, in bytes.
const maxExpanded = 4 << 20

// expand replaces references such as ${NAME} in the strings of a JSON value. A string below structuredContent
// that is only a reference becomes the value itself.
func expand(text json.RawMessage, values map[string]json.RawMessage) json.RawMessage {
	left := maxExpanded
	return traffic.Edit(text, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if !strings.Contains(value, "${") {
			return nil, false
		}
		if name, ok := onlyReference(value); ok && strings.HasPrefix(string(place), "/structuredContent/") {
			value, known := values[name]
			return value, known
		}
		return jsonrpc.AppendString(nil, expandText(value, values, &left)), true
	})
}

// onlyReference returns the name if a string is one reference.
func onlyReference(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "${")
	if !ok || !strings.HasSuffix(name, "}") {
		return "", false
	}
	name = name[:len(name)-1]
	return name, !strings.ContainsAny(name, "${}")
}

// expandText replaces the references in a text. A reference to an unknown name remains, and $${ is a literal ${.
func expandText(text string, values map[string]json.RawMessage, left *int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		switch value, known := values[name]; {
		case !found:
			b.WriteString(text)
			return b.String()
		case strings.HasSuffix(before, "$"):
			b.WriteString(before[:len(before)-1] + "${")
			text = rest
		case !closed || !known || len(value) > *left:
			b.WriteString(before + "${")
			text = rest
		default:
			*left -= len(value)
			b.WriteString(before + textOf(value))
			text = after
		}
	}
}

// textOf returns a string without quotation marks, and another value as JSON.
func textOf(value json.RawMessage) string {
	if len(value) > 0 && value[0] == '"' {
		return jsonrpc.Unquote(value)
	}
	return string(value)
}
