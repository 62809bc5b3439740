package revision

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Encoded is a result that has been encoded before, for exactly the revision it
// is sent in, as lists are that many peers ask for. It is never modified.
type Encoded []byte

// errNoResult reports an outcome that is neither a result nor an error.
var errNoResult = errors.New("there is no result")

// AppendResult appends result, a pointer to one of mcp's results or Encoded, as
// a peer of revision r is to read it, on one line. It does not modify result, which
// many calls may share. What is no JSON object is an error, and nothing is appended.
//
// The texts of tools, resources and prompts are what programs happen to print: their
// bytes that are not UTF-8 become U+FFFD.
//
// In the modern era each result says what kind of result it is and, in its
// _meta, which server made it: identity is that server's mcp.Implementation as
// JSON, or nil (2026-07-28, basic, ResultType and _meta).
func AppendResult(dst []byte, r mcp.Revision, result any, identity []byte) ([]byte, error) {
	if e, ok := result.(Encoded); ok {
		return append(dst, e...), nil
	}
	result = Speak(r, result)
	head := func() []byte {
		if r.Modern() {
			return appendHead(dst, identity, nil)
		}
		return append(dst, '{')
	}
	switch v := result.(type) {
	case *mcp.CallToolResult:
		if v == nil {
			break
		}
		if plain(v) {
			return appendToolResult(head(), v), nil
		}
		result = mend(v)
	case *mcp.ReadResourceResult:
		if v == nil {
			break
		}
		if plainContents(v) {
			return appendContents(head(), v), nil
		}
		result = mendContents(v)
	case *mcp.GetPromptResult:
		if v != nil {
			result = mendPrompt(v)
		}
	}
	body, err := json.Marshal(result, json.Deterministic(true))
	switch {
	case err != nil:
		return dst, err
	case string(body) == "null":
		return dst, errNoResult
	case body[0] != '{':
		return dst, fmt.Errorf("a result is an object, not what %T encodes to", result)
	case r.Modern():
		return splice(dst, body, identity), nil
	}
	return append(dst, body...), nil
}

// appendHead appends the beginning of a modern result: resultType and _meta, and a comma.
func appendHead(dst, identity, meta []byte) []byte {
	dst = append(dst, `{"resultType":"complete",`...)
	if identity == nil && meta == nil {
		return dst
	}
	dst = append(dst, `"_meta":{`...)
	if identity != nil {
		dst = append(dst, `"`+mcp.MetaServerInfo+`":`...)
		dst = append(dst, identity...)
	}
	for name, value := range jsonrpc.All(meta) {
		if name == mcp.MetaServerInfo && identity != nil {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendString(dst, name)
		dst = append(dst, ':')
		dst = append(dst, value...)
	}
	return append(dst, `},`...)
}

// splice makes a modern result of body, a result's own members.
func splice(dst, body, identity []byte) []byte {
	meta, _ := jsonrpc.Get(body, "_meta")
	kind, hasKind := jsonrpc.Get(body, "resultType")
	if meta == nil && !hasKind {
		dst = appendHead(dst, identity, nil)
		if rest := body[1:]; len(rest) > 1 {
			return append(dst, rest...)
		}
		dst[len(dst)-1] = '}' // no members follow the comma
		return dst
	}
	start := len(dst)
	dst = appendHead(dst, identity, meta)
	if hasKind && !bytes.Equal(kind, []byte(`"complete"`)) {
		rest := append([]byte(nil), dst[start+len(`{"resultType":"complete"`):]...)
		dst = append(append(append(dst[:start], `{"resultType":`...), kind...), rest...)
	}
	for name, value := range jsonrpc.All(body) {
		if name == "_meta" || name == "resultType" {
			continue
		}
		dst = jsonrpc.AppendString(dst, name)
		dst = append(append(append(dst, ':'), value...), ',')
	}
	dst[len(dst)-1] = '}'
	return dst
}

// plain reports whether a tool's result is of the common shape that
// appendToolResult writes without reflection.
func plain(t *mcp.CallToolResult) bool {
	if t.Meta != nil || t.ResultType != "" {
		return false
	}
	for _, c := range t.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			if c == nil || c.Annotations != nil || c.Meta != nil {
				return false
			}
		case *mcp.ImageContent:
			if c == nil || c.Annotations != nil || c.Meta != nil {
				return false
			}
		default:
			return false
		}
	}
	// What a handler put there itself may not be JSON at all: let the library see to it.
	return t.StructuredContent == nil || jsonrpc.Check(t.StructuredContent, jsonrpc.Limits{}) == nil
}

// size is about how many bytes appendToolResult appends, so that a large result is
// written into one piece of memory once.
func size(t *mcp.CallToolResult) int {
	n := 64 + len(t.StructuredContent)
	for _, c := range t.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			n += 40 + len(c.Text) + len(c.Text)/16 // room for some escapes
		case *mcp.ImageContent:
			n += 64 + base64.StdEncoding.EncodedLen(len(c.Data))
		}
	}
	return n
}

// appendToolResult appends the members of t and the closing brace.
func appendToolResult(dst []byte, t *mcp.CallToolResult) []byte {
	dst = slices.Grow(dst, size(t))
	dst = append(dst, `"content":[`...)
	for i, c := range t.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch c := c.(type) {
		case *mcp.TextContent:
			dst = append(dst, `{"type":"text","text":`...)
			dst = jsonrpc.AppendString(dst, c.Text)
		case *mcp.ImageContent:
			dst = append(dst, `{"type":"image","data":"`...)
			dst = base64.StdEncoding.AppendEncode(dst, c.Data)
			dst = append(dst, `","mimeType":`...)
			dst = jsonrpc.AppendString(dst, c.MimeType)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if t.StructuredContent != nil {
		dst = append(dst, `,"structuredContent":`...)
		dst = appendLine(dst, t.StructuredContent)
	}
	if t.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	return append(dst, '}')
}

// appendLine appends a valid JSON value without line breaks, which end a message
// on a transport of lines. Strings cannot hold any.
func appendLine(dst, value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return append(dst, value...)
	}
	line := jsontext.Value(bytes.Clone(value))
	_ = line.Compact() // it is valid
	return append(dst, line...)
}
