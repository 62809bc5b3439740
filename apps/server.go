package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// AddPage adds a page as a resource. html is the document, or a function that returns it for each request; see
// [server.AddResource] for its errors.
//
// The description of the page is in the list of resources and in the contents. AddPage panics if the URI does not begin
// with ui://, if an origin is invalid, and where [server.AddResource] panics.
func AddPage[HTML string | func(context.Context) (string, error)](
	to server.Registrar, page Page, html HTML, options ...server.Option,
) {
	if !strings.HasPrefix(page.URI, scheme) {
		panic(fmt.Sprintf("apps: the URI of a page must begin with ui://, not %q", page.URI))
	}
	if err := page.CSP.check(); err != nil {
		panic(fmt.Sprintf("apps: %s: %v", page.URI, err))
	}
	document, ok := any(html).(func(context.Context) (string, error))
	if !ok {
		document = func(context.Context) (string, error) { return any(html).(string), nil }
	}
	meta := withMeta(nil, metaKey, page.meta())
	server.AddResource(to, mcp.Resource{URI: page.URI, Name: page.Name, Title: page.Title,
		Description: page.Description, MimeType: MIMEType, Meta: meta},
		func(ctx context.Context) (mcp.ResourceContents, error) {
			text, err := document(ctx)
			return mcp.ResourceContents{Text: text, Meta: meta}, err
		}, options...)
}

// Supported reports whether the client of a request shows pages. Without a page, a tool can tell its user what is
// missing.
func Supported(ctx context.Context) bool {
	c := call.From(ctx)
	if c == nil {
		return false
	}
	raw, _ := c.Extension(mcp.ExtensionApps)
	var settings settings
	return jsonv2.Unmarshal(raw, &settings) == nil && slices.ContainsFunc(settings.MIMETypes, isPage)
}

// settings contains what a client declares.
type settings struct {
	MIMETypes []string `json:"mimeTypes"`
}

// withMeta returns a copy of meta with one more entry.
func withMeta(meta mcp.Meta, key string, value any) mcp.Meta {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values are of types of this package
	}
	meta = maps.Clone(meta)
	if meta == nil {
		meta = make(mcp.Meta)
	}
	meta[key] = raw
	return meta
}
