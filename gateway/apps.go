package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// pages is a template for the pages of a server. Servers need not list them (MCP Apps 2026-01-26, Resource
// Discovery).
var pages = mcp.ResourceTemplate{URITemplate: pageScheme + "{+path}", Name: "pages", MimeType: apps.MIMEType,
	Description: "Pages that show results of tools"}

// withPages adds pages to the templates of a server if it does not list the page of a tool.
func withPages(status *host.ServerStatus, templates []mcp.ResourceTemplate) []mcp.ResourceTemplate {
	listed := make(map[string]bool)
	for i := range status.Resources {
		listed[status.Resources[i].URI] = true
	}
	unlisted := slices.ContainsFunc(status.Tools, func(t host.Tool) bool {
		return slices.ContainsFunc(pagesOf(t.Definition.Meta), func(uri string) bool { return !listed[uri] })
	})
	if !unlisted || slices.ContainsFunc(templates, func(t mcp.ResourceTemplate) bool {
		return isAllPages(t.URITemplate)
	}) {
		return templates
	}
	return append(slices.Clip(templates), pages)
}

// rewriteUI returns _meta with the URIs of pages replaced by their URIs at the gateway. It does not modify meta.
func rewriteUI(meta mcp.Meta, uri func(string) string) mcp.Meta {
	changed, cloned := meta, false
	for key, value := range meta {
		rewritten := mapPages(value, uri)
		if bytes.Equal(rewritten, value) {
			continue
		}
		if !cloned {
			changed, cloned = maps.Clone(meta), true
		}
		changed[key] = rewritten
	}
	return changed
}

// pagesOf returns the URIs of pages in _meta, sorted. A tool names its page in the field resourceUri of ui, in an
// earlier version as ui/resourceUri (MCP Apps), or as openai/outputTemplate (Apps SDK), so any string may be a
// page.
func pagesOf(meta mcp.Meta) (all []string) {
	for _, value := range meta {
		mapPages(value, func(uri string) string {
			all = append(all, uri)
			return uri
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mapPages returns a JSON value in which to has replaced the URIs of pages. Other text does not change.
func mapPages(raw json.RawMessage, to func(string) string) json.RawMessage {
	if bytes.IndexByte(raw, ':') < 0 {
		return raw
	}
	var mapped []byte
	copied := 0
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for {
		if kind := decoder.PeekKind(); kind != '"' {
			if _, err := decoder.ReadToken(); err != nil { // the end
				break
			}
			continue
		}
		text, err := decoder.ReadValue()
		if err != nil {
			break
		}
		in, number := decoder.StackIndex(decoder.StackDepth())
		isName := in == '{' && number%2 == 1
		from := jsonrpc.Unquote(text)
		if isName || !strings.HasPrefix(canonical(from), pageScheme) {
			continue
		}
		if uri := to(from); uri != from {
			end := int(decoder.InputOffset())
			mapped = jsonrpc.AppendString(append(mapped, raw[copied:end-len(text)]...), uri)
			copied = end
		}
	}
	if copied == 0 {
		return raw
	}
	return append(mapped, raw[copied:]...)
}

// uriOf returns a function that maps the URI of a server's resource to its URI at the gateway. Only Run uses
// it.
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

// referToUIs records the URIs of the pages of all tools, so that a tool is registered again when
// they change. The resources must be registered.
func (v *view) referToUIs(servers []string) {
	for _, name := range servers {
		uri := v.uriOf(name)
		for _, t := range v.tools.byServer[name] {
			t.wantUI = ""
			for _, page := range pagesOf(t.entry.Definition.Meta) {
				t.wantUI += uri(page) + "\n"
			}
		}
	}
}
