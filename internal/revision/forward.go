package revision

import (
	"slices"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// DecodeExceptText decodes a result of tools/call whose content consists of texts and images without annotations, which
// all revisions can read. It sets StructuredContent and IsError, and the entries of Meta that may be forwarded, which
// refer to raw, and Source to raw. It returns false for all other results, and for results that the decoder of package
// mcp might reject. raw must be a JSON object that has been checked.
func DecodeExceptText(raw []byte) (result *mcp.CallToolResult, ok bool) {
	result = &mcp.CallToolResult{ResultBase: mcp.ResultBase{Source: raw}}
	hasContent := false
	for name, value := range jsonrpc.All(raw) {
		switch name {
		case "content":
			if hasContent = isText(value); !hasContent {
				return nil, false
			}
		case "structuredContent":
			result.StructuredContent = value
		case "isError":
			if result.IsError = value[0] == 't'; !result.IsError && value[0] != 'f' {
				return nil, false
			}
		case "resultType":
			if jsonrpc.Unquote(value) != mcp.ResultTypeComplete {
				return nil, false
			}
		case "_meta":
			if value[0] != '{' {
				return nil, false
			}
			for key, entry := range jsonrpc.All(value) {
				if mcp.IsForwardable(key, entry) {
					if result.Meta == nil {
						result.Meta = make(mcp.Meta)
					}
					result.Meta[key] = entry
				}
			}
		}
	}
	return result, hasContent
}

// isText reports whether a value is an array of texts and images without annotations.
func isText(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	for block := range jsonscan.Elements(value) {
		var kind []byte
		var hasText, hasData, hasMIMEType bool
		for name, value := range jsonrpc.All(block) { // yields nothing if it is not an object
			switch name {
			case "type":
				kind = value
			case "text":
				hasText = value[0] == '"'
			case "data": // need not be base64: only the client decodes it
				hasData = value[0] == '"'
			case "mimeType":
				hasMIMEType = value[0] == '"'
			case "annotations", "_meta":
				return false
			}
		}
		if !(hasText && string(kind) == `"text"`) && !(hasData && hasMIMEType && string(kind) == `"image"`) {
			return false
		}
	}
	return true
}

// AppendForwarded appends the Source of a result for a peer of revision r, on one line. It replaces _meta with the
// entries of Meta that also occur in the Source, and adds the resultType and identity of this server; see
// AppendResult. Source must be a JSON object that has been checked. Downgrade must not change the result.
//
// If Source is a slice of memory, AppendForwarded may change memory, and return a slice of it to avoid the copy of a
// long Source.
func AppendForwarded(dst []byte, r mcp.Revision, result *mcp.CallToolResult, identity, memory []byte) []byte {
	var meta []byte
	if len(result.Meta) > 0 {
		all, _ := jsonrpc.Get(result.Source, "_meta")
		meta = selectMembers(all, result.Meta)
	}
	start := len(dst)
	if r.Modern() {
		dst = appendResultHead(dst, identity, meta)
	} else {
		dst = append(dst, '{')
	}
	if members, ok := consecutive(result.Source); ok && (meta == nil || r.Modern()) {
		dst = appendIn(memory, dst, members)
	} else {
		dst = slices.Grow(dst, len(result.Source)+len(meta)+8)
		for name, value := range jsonrpc.All(result.Source) {
			switch {
			case name == "resultType", name == "_meta" && (meta == nil || r.Modern()):
				continue
			case name == "_meta":
				value = meta
			}
			dst = append(jsonrpc.AppendString(dst, name), ':')
			dst = append(append(dst, value...), ',')
		}
	}
	if last := len(dst) - 1; dst[last] == ',' {
		dst = dst[:last]
	}
	dst = append(dst, '}')
	jsonscan.ReplaceLineBreaks(dst[start:])
	return dst
}

// consecutive returns the fields of a result other than resultType and _meta, without the braces, if they follow one
// another.
func consecutive(result []byte) (members []byte, ok bool) {
	from, to, ended := 0, 0, false
	begin := jsonscan.SkipSpace(result, 0) + 1 // beginning of the next field
	for name, value := range jsonrpc.All(result) {
		end := jsonscan.Offset(result, value) + len(value)
		switch {
		case name == "resultType" || name == "_meta":
			ended = to > 0
		case ended:
			return nil, false
		case to == 0:
			from, to = begin, end
		default:
			to = end
		}
		begin = jsonscan.SkipSpace(result, end) + 1
	}
	return result[from:to], true
}

// minInPlace is the length of a text, in bytes, from which appendIn does not copy it.
const minInPlace = 16 << 10

// appendIn appends text to dst. If text is long and a slice of memory with enough space before it for dst, appendIn
// copies dst there instead and returns a slice of memory.
func appendIn(memory, dst, text []byte) []byte {
	at := jsonscan.Offset(memory, text)
	if at < len(dst) || len(text) < minInPlace {
		return append(slices.Grow(dst, len(text)+8), text...) // with space for braces
	}
	begin := at - len(dst)
	copy(memory[begin:], dst)
	return memory[begin : at+len(text)]
}
