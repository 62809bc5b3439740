package apps

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Extension returns the extension that a client declares in [client.Dialer] if it shows pages.
func Extension() client.Extension {
	return client.Extension{ID: mcp.ExtensionApps, Settings: settings{[]string{MIMEType}}}
}

// Source is a server that offers pages, such as a [client.Client].
type Source interface {
	ReadResource(ctx context.Context, uri string, options ...client.CallOption) (*mcp.ReadResourceResult, error)
}

var _ Source = (*client.Client)(nil)

// Read reads a page, and returns its description and the document. entry is the resource as the server lists it, or
// only its URI, because a server need not list its pages. CSP, permissions, domain and border in the contents override
// those in the entry.
//
// The document is UTF-8 of type [MIMEType]; anything else is an error. Read does not check it further: it is somebody
// else's page.
func Read(ctx context.Context, from Source, entry mcp.Resource, options ...client.CallOption) (Page, string, error) {
	p := Page{URI: entry.URI, Name: entry.Name, Title: entry.Title, Description: entry.Description}
	if !strings.HasPrefix(p.URI, scheme) {
		return p, "", fmt.Errorf("apps: the URI of a page must begin with ui://, not %.200q", p.URI)
	}
	result, err := from.ReadResource(ctx, p.URI, options...)
	if err != nil {
		return p, "", fmt.Errorf("apps: %w", err)
	}
	if len(result.Contents) != 1 {
		return p, "", fmt.Errorf("apps: %.200q must have one document, not %d", p.URI, len(result.Contents))
	}
	c := &result.Contents[0]
	if !isPage(c.MimeType) {
		return p, "", fmt.Errorf("apps: %.200q must have the type %s, not %.100q", p.URI, MIMEType, c.MimeType)
	}
	html := c.Text
	if c.Blob != nil {
		html = string(c.Blob)
	}
	if !utf8.ValidString(html) {
		return p, "", fmt.Errorf("apps: %.200q must be UTF-8", p.URI)
	}
	meta := c.Meta
	if _, ok := meta[metaKey]; !ok {
		meta = entry.Meta
	}
	if err := p.read(meta); err != nil {
		return p, "", fmt.Errorf("apps: %.200q: %w", p.URI, err)
	}
	return p, html, nil
}

// read sets the fields that the key ui of meta describes.
func (p *Page) read(meta mcp.Meta) error {
	var m struct {
		CSP         CSP            `json:"csp"`
		Permissions map[string]any `json:"permissions"`
		Domain      string         `json:"domain"`
		Border      *bool          `json:"prefersBorder"`
	}
	raw, ok := meta[metaKey]
	if !ok {
		return nil
	}
	if err := jsonv2.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("invalid _meta.ui: %w", err)
	}
	p.CSP, p.Domain, p.Border = m.CSP, m.Domain, m.Border
	p.Permissions = slices.Sorted(maps.Keys(m.Permissions))
	return nil
}

// isPage reports whether a MIME type marks a page.
func isPage(text string) bool {
	kind, parameters, err := mime.ParseMediaType(text)
	return err == nil && kind == "text/html" && parameters["profile"] == "mcp-app"
}
