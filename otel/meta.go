package otel

import (
	"go.opentelemetry.io/otel/propagation"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// maxField is the limit for a field of _meta, in bytes. It is the limit for baggage (W3C Baggage, Limits).
const maxField = 8 << 10

// metaOf gives propagators access to the _meta of a request (2026-07-28, basic, _meta). Its fields are the entries that
// are strings.
type metaOf struct{ c *call.Call }

var _ propagation.TextMapCarrier = metaOf{}

// Get implements propagation.TextMapCarrier.
func (m metaOf) Get(key string) string {
	meta, ok := m.c.Params().Get("_meta")
	if !ok {
		return ""
	}
	value, _ := jsonrpc.Get(meta, key)
	if len(value) < 2 || value[0] != '"' || len(value) > maxField {
		return ""
	}
	return jsonrpc.Unquote(value)
}

// Set implements propagation.TextMapCarrier. It ignores names that _meta must not have.
func (m metaOf) Set(key, value string) { _ = m.c.SetMeta(key, value) }

// Keys implements propagation.TextMapCarrier.
func (m metaOf) Keys() []string {
	var keys []string
	if meta, ok := m.c.Params().Get("_meta"); ok {
		for key := range jsonrpc.All(meta) {
			keys = append(keys, key)
		}
	}
	return keys
}
