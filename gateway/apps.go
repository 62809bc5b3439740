package gateway

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Members of _meta with which the MCP Apps extension names the page of a tool: an object with the member resourceUri
// and, in its earlier form, the URI.
const (
	metaUI         = "ui"
	metaUIResource = "ui/resourceUri"
)

// pages is a template of the pages of a server. Servers need not list them (MCP Apps 2026-01-26, Resource Discovery).
var pages = mcp.ResourceTemplate{URITemplate: pageScheme + "{+path}", Name: "pages", MimeType: apps.MIMEType,
	Description: "Pages that show results of tools"}

// withPages adds pages to the templates of a server if it does not list the page of a tool.
func withPages(status *host.ServerStatus, templates []mcp.ResourceTemplate) []mcp.ResourceTemplate {
	listed := make(map[string]bool)
	for i := range status.Resources {
		listed[status.Resources[i].URI] = true
	}
	unlisted := slices.ContainsFunc(status.Tools, func(t host.Merged[mcp.Tool]) bool {
		uri := apps.PageOf(&t.Definition)
		return uri != "" && !listed[uri]
	})
	if !unlisted || slices.ContainsFunc(templates, func(t mcp.ResourceTemplate) bool {
		return isAllPages(t.URITemplate)
	}) {
		return templates
	}
	return append(slices.Clip(templates), pages)
}

// rewriteUI returns _meta with the URIs of pages that the resources have at the gateway. It does not modify meta.
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
			if t.wantUI = apps.PageOf(&t.entry.Definition); t.wantUI != "" {
				t.wantUI = uri(t.wantUI)
			}
		}
	}
}
