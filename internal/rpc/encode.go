package rpc

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// encode encodes a request. Its progress token is its id.
func (o *Outbound) encode(p *pending) []byte {
	req, meta := p.req, o.Meta
	if req.ConnectionMeta != nil {
		meta = req.ConnectionMeta
	}
	dst := make([]byte, 0, 128+len(req.Params)+len(meta))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = p.id.Append(dst)
	dst = append(dst, `,"method":`...)
	dst = jsonrpc.AppendString(dst, req.Method)
	hasMeta := len(meta) > 0 || req.OnProgress != nil || len(req.Meta) > 0
	if req.Params == nil && !hasMeta {
		return append(dst, '}')
	}
	dst = append(dst, `,"params":{`...)
	dst = append(dst, membersOf(req.Params)...)
	if hasMeta {
		dst = append(appendComma(dst), `"_meta":{`...)
		dst = append(dst, meta...)
		if req.OnProgress != nil {
			dst = appendComma(dst)
			dst = append(dst, `"`+mcp.MetaProgressToken+`":`...)
			dst = p.id.Append(dst)
		}
		if len(req.Meta) > 0 {
			dst = appendMeta(dst, req.Meta)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, "}}"...)
	jsonscan.ReplaceLineBreaks(dst) // of raw JSON of the program
	return dst
}

// membersOf returns the text between the braces of an object.
func membersOf(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 {
		return nil
	}
	return bytes.TrimSpace(object[1 : len(object)-1])
}

func appendMeta(dst []byte, meta map[string]json.RawMessage) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		dst = appendComma(dst)
		dst = jsonrpc.AppendString(dst, key)
		dst = append(dst, ':')
		dst = append(dst, meta[key]...)
	}
	return dst
}

// appendComma appends a comma unless the object has no member yet.
func appendComma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}
