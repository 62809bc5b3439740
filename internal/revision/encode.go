package revision

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// errNoResult reports an outcome with neither a result nor an error.
var errNoResult = errors.New("the handler returned no result")

// AppendResult appends the encoding of result for a peer of revision r, on one line. result
// must be a pointer to a result type of package mcp. AppendResult does not modify result,
// which concurrent calls may share. If result is not a JSON object, AppendResult returns an
// error and appends nothing.
//
// Bytes that are not UTF-8 become U+FFFD, because programs print arbitrary bytes.
//
// A modern result carries its resultType and, in _meta, the server that made it: identity
// is the server's mcp.Implementation as JSON, or nil (2026-07-28, basic, ResultType and
// _meta).
func AppendResult(dst []byte, r mcp.Revision, result any, identity []byte) ([]byte, error) {
	result = Downgrade(r, result)
	head := func() []byte {
		if r.Modern() {
			return appendResultHead(dst, identity, nil)
		}
		return append(dst, '{')
	}
	switch v := result.(type) {
	case *mcp.CallToolResult:
		if v == nil {
			break
		}
		if isPlainToolResult(v) {
			return appendToolResult(head(), v), nil
		}
	case *mcp.ReadResourceResult:
		if v == nil {
			break
		}
		if isPlainContents(v) {
			return appendContents(head(), v), nil
		}
	}
	body, err := encode(result)
	switch {
	case err != nil:
		return dst, err
	case string(body) == "null":
		return dst, errNoResult
	case body[0] != '{':
		return dst, fmt.Errorf("a result must be a JSON object, but %T encodes to another type", result)
	case r.Modern():
		return appendModernResult(dst, body, identity), nil
	}
	return append(dst, body...), nil
}

// encode encodes a result. The library would scan the output of MarshalJSON again.
func encode(result any) ([]byte, error) {
	if forwarded, ok := result.(*mcp.CallToolResult); ok && forwarded != nil && forwarded.Source != nil {
		return forwarded.MarshalJSON()
	}
	return jsonscan.Marshal(result, json.Deterministic(true), jsontext.PreserveRawStrings(true))
}

// appendResultHead appends the beginning of a modern result: the brace, resultType, _meta
// and a comma.
func appendResultHead(dst, identity, meta []byte) []byte {
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

// appendModernResult appends body, an encoded result, as a modern result.
func appendModernResult(dst, body, identity []byte) []byte {
	meta, _ := jsonrpc.Get(body, "_meta")
	kind, hasKind := jsonrpc.Get(body, "resultType")
	if meta == nil && !hasKind {
		dst = appendResultHead(dst, identity, nil)
		if rest := body[1:]; len(rest) > 1 {
			return append(dst, rest...)
		}
		dst[len(dst)-1] = '}' // nothing follows the comma
		return dst
	}
	start := len(dst)
	dst = appendResultHead(dst, identity, meta)
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

// isPlainToolResult reports whether t has the common shape that appendToolResult encodes
// without reflection.
func isPlainToolResult(t *mcp.CallToolResult) bool {
	if t.Meta != nil || t.ResultType != "" || t.Source != nil {
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
	// A handler's structured content may be invalid JSON. Then the JSON library returns the
	// error.
	return t.StructuredContent == nil || jsonrpc.Check(t.StructuredContent, jsonrpc.Limits{}) == nil
}

// sizeOfToolResult estimates how many bytes appendToolResult appends, so that a large
// result needs one allocation.
func sizeOfToolResult(t *mcp.CallToolResult) int {
	n := 64 + len(t.StructuredContent)
	for _, c := range t.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			n += 40 + len(c.Text) + len(c.Text)/16 // with space for some escapes
		case *mcp.ImageContent:
			n += 64 + base64.StdEncoding.EncodedLen(len(c.Data))
		}
	}
	return n
}

// appendToolResult appends the fields of t and the closing brace.
func appendToolResult(dst []byte, t *mcp.CallToolResult) []byte {
	dst = slices.Grow(dst, sizeOfToolResult(t))
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
			dst = appendBase64(dst, c.Data)
			dst = append(dst, `","mimeType":`...)
			dst = jsonrpc.AppendString(dst, c.MimeType)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if t.StructuredContent != nil {
		dst = append(dst, `,"structuredContent":`...)
		start := len(dst)
		dst = append(dst, t.StructuredContent...)
		jsonscan.ReplaceLineBreaks(dst[start:]) // a line break ends a message on a stream
	}
	if t.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	return append(dst, '}')
}

// isPlainContents reports whether v has the common shape that appendContents encodes
// without reflection.
func isPlainContents(v *mcp.ReadResourceResult) bool {
	return v.Meta == nil && v.ResultType == "" && v.Source == nil && v.Contents != nil &&
		!slices.ContainsFunc(v.Contents, func(c mcp.ResourceContents) bool { return c.Meta != nil })
}

// appendContents appends the fields of v and the closing brace.
func appendContents(dst []byte, v *mcp.ReadResourceResult) []byte {
	size := 64
	for _, c := range v.Contents {
		size += 64 + len(c.URI) + len(c.Text) + len(c.Text)/16 + base64.StdEncoding.EncodedLen(len(c.Blob))
	}
	dst = slices.Grow(dst, size)
	if v.TTLMs != nil {
		dst = append(dst, `"ttlMs":`...)
		dst = append(strconv.AppendInt(dst, *v.TTLMs, 10), ',')
	}
	if v.CacheScope != "" {
		dst = append(dst, `"cacheScope":`...)
		dst = append(jsonrpc.AppendString(dst, string(v.CacheScope)), ',')
	}
	dst = append(dst, `"contents":[`...)
	for i, c := range v.Contents {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"uri":`...)
		dst = jsonrpc.AppendString(dst, c.URI)
		if c.MimeType != "" {
			dst = append(dst, `,"mimeType":`...)
			dst = jsonrpc.AppendString(dst, c.MimeType)
		}
		if c.Blob != nil {
			dst = append(dst, `,"blob":"`...)
			dst = append(appendBase64(dst, c.Blob), '"')
		} else {
			dst = append(dst, `,"text":`...)
			dst = jsonrpc.AppendString(dst, c.Text)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// base64Pairs returns the two base64 characters for each value of 12 bits, the first in the low
// byte. It is made when it is first needed, so that programs start faster.
var base64Pairs = sync.OnceValue(func() *[1 << 12]uint16 {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var pairs [1 << 12]uint16
	for i := range pairs {
		pairs[i] = uint16(alphabet[i>>6]) | uint16(alphabet[i&63])<<8
	}
	return &pairs
})

// smallBlob is the size in bytes up to which a blob is not worth the table of pairs.
const smallBlob = 4 << 10

// appendBase64 appends src in the standard encoding of base64. It takes about half the time of
// package base64 for large blobs, because it converts 12 bits at a time.
func appendBase64(dst, src []byte) []byte {
	if len(src) <= smallBlob {
		return base64.StdEncoding.AppendEncode(dst, src)
	}
	pairs := base64Pairs()
	dst = slices.Grow(dst, base64.StdEncoding.EncodedLen(len(src)))
	out := dst[len(dst):cap(dst)]
	for len(src) >= 8 && len(out) >= 8 { // 6 of the 8 bytes become 8 characters
		v := binary.BigEndian.Uint64(src)
		binary.LittleEndian.PutUint64(out, uint64(pairs[v>>52])|uint64(pairs[v>>40&0xFFF])<<16|
			uint64(pairs[v>>28&0xFFF])<<32|uint64(pairs[v>>16&0xFFF])<<48)
		src, out = src[6:], out[8:]
	}
	return base64.StdEncoding.AppendEncode(dst[:cap(dst)-len(out)], src)
}
