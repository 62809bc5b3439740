package gateway

import (
	"encoding/json"
	"maps"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Members of _meta with which the MCP Apps extension names the resource of a user interface: an object with
// the member resourceUri and, in its earlier form, the URI.
const (
	metaUI         = "ui"
	metaUIResource = "ui/resourceUri"
)

// rewriteUI returns _meta with the URIs of user interfaces that the resources have at the gateway. It does not
// modify meta.
func rewriteUI(meta mcp.Meta, uri func(string) string) mcp.Meta {
	set := func(key string, value json.RawMessage) {
		meta = maps.Clone(meta)
		meta[key] = value
	}
	if from, ok := stringOf(meta[metaUIResource]); ok && uri(from) != from {
		set(metaUIResource, jsonrpc.AppendString(nil, uri(from)))
	}
	if from, ok := resourceURI(meta[metaUI]); ok && uri(from) != from {
		changed := jsonrpc.AppendString([]byte(`{"resourceUri":`), uri(from))
		for name, value := range jsonrpc.All(meta[metaUI]) {
			if name != "resourceUri" {
				changed = append(append(jsonrpc.AppendString(append(changed, ','), name), ':'), value...)
			}
		}
		set(metaUI, append(changed, '}'))
	}
	return meta
}

// resourceURI returns the URI in the member ui of _meta.
func resourceURI(ui json.RawMessage) (string, bool) {
	if len(ui) == 0 || ui[0] != '{' {
		return "", false
	}
	raw, _ := jsonrpc.Get(ui, "resourceUri")
	return stringOf(raw)
}

func stringOf(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return jsonrpc.Unquote(raw), true
}

// uriOf returns a function for the URIs that resources of a server have at the gateway. It is used by Run only.
func (v *view) uriOf(serverName string) func(string) string {
	return func(uri string) string {
		for _, r := range v.resources.byServer[serverName] {
			if r.key == uri && r.name != "" {
				return r.name
			}
		}
		return v.routes.Load().uri(serverName, uri)
	}
}

// referToUIs records the URIs of the user interfaces of all tools, so that a tool is registered again when
// they change. The resources must be registered.
func (v *view) referToUIs(servers []string) {
	for _, name := range servers {
		uri := v.uriOf(name)
		for _, t := range v.tools.byServer[name] {
			t.wantUI = uiOf(&t.entry, uri)
		}
	}
}

// uiOf returns the URI of the user interface of a tool at the gateway, or "".
func uiOf(t *host.Merged[mcp.Tool], uri func(string) string) string {
	if t.Definition.Meta == nil {
		return ""
	}
	if from, ok := resourceURI(t.Definition.Meta[metaUI]); ok {
		return uri(from)
	}
	if from, ok := stringOf(t.Definition.Meta[metaUIResource]); ok {
		return uri(from)
	}
	return ""
}
