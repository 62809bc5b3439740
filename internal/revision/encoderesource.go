package revision

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// isPlainContents reports whether v has the common shape that appendContents encodes
// without reflection.
func isPlainContents(v *mcp.ReadResourceResult) bool {
	return v.Meta == nil && v.ResultType == "" && v.Source == nil && v.Contents != nil &&
		!slices.ContainsFunc(v.Contents, func(c mcp.ResourceContents) bool { return c.Meta != nil })
}

// appendContents appends the members of v and the closing brace.
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
		dst = append(jsonrpc.AppendString(dst, v.CacheScope), ',')
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
