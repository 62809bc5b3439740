package otel

import (
	"go.opentelemetry.io/otel/propagation"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// maxField bounds what is taken from a request's _meta, in bytes: as much as baggage may
// have (W3C Baggage, Limits).
const maxField = 8 << 10

// metaOf is a request's _meta as propagators see it: fields with a text each (2026-07-28,
// basic, _meta).
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

// Set implements propagation.TextMapCarrier. Fields that _meta cannot have are left out.
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
