package apps

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/mcp"
)

// MIMEType is the MIME type of pages.
const MIMEType = "text/html;profile=mcp-app"

const scheme = "ui://"

// Page describes a page (2026-01-26, UI Resource Format).
type Page struct {
	// URI identifies the page. It begins with ui://, such as ui://weather/map.
	URI string
	// Name is the name of the page, and Title its name for display.
	Name, Title string
	// Description says what the page shows.
	Description string
	// CSP contains the origins that the page may reach. The zero value allows none, so all scripts, styles and images
	// must be in the document.
	CSP CSP
	// Permissions lists what the page wants to use: "camera", "microphone", "geolocation", "clipboardWrite". A host
	// need not grant them.
	Permissions []string
	// Domain asks for a dedicated origin for the page, in a form that the host defines. Empty means that the host
	// chooses.
	Domain string
	// Border tells the host whether to draw a border and a background. Nil means that the host decides.
	Border *bool
}

// CSP contains the origins that a page may reach: https or wss, a host, which may begin with "*.", and optionally a
// port, as in https://*.example.com. A host can allow fewer.
type CSP struct {
	// Connect lists the origins to which scripts may send requests.
	Connect []string `json:"connectDomains,omitempty"`
	// Resource lists the origins of scripts, styles, images, fonts and media.
	Resource []string `json:"resourceDomains,omitempty"`
	// Frame lists the origins of frames in the page.
	Frame []string `json:"frameDomains,omitempty"`
	// Base lists the origins that the base element may name.
	Base []string `json:"baseUriDomains,omitempty"`
}

// metaKey is the key of _meta that describes a page, or the page of a tool. oldMetaKey is an earlier form for
// tools; its value is the URI.
const (
	metaKey    = "ui"
	oldMetaKey = "ui/resourceUri"
)

// pageMeta is the value of the key ui in the _meta of a page.
type pageMeta struct {
	CSP         *CSP                `json:"csp,omitempty"`
	Permissions map[string]struct{} `json:"permissions,omitempty"`
	Domain      string              `json:"domain,omitempty"`
	Border      *bool               `json:"prefersBorder,omitempty"`
}

func (p *Page) meta() pageMeta {
	m := pageMeta{Domain: p.Domain, Border: p.Border}
	if !p.CSP.empty() {
		m.CSP = &p.CSP
	}
	if len(p.Permissions) > 0 {
		m.Permissions = make(map[string]struct{})
		for _, name := range p.Permissions {
			m.Permissions[name] = struct{}{}
		}
	}
	return m
}

func (c *CSP) lists() [][]string { return [][]string{c.Connect, c.Resource, c.Frame, c.Base} }

func (c *CSP) empty() bool {
	return !slices.ContainsFunc(c.lists(), func(list []string) bool { return len(list) > 0 })
}

func (c *CSP) check() error {
	for _, list := range c.lists() {
		for _, text := range list {
			if !isOrigin(text) {
				return fmt.Errorf("the origin %q must be https:// or wss://, a host and perhaps a port", text)
			}
		}
		if len(list) > maxOrigins {
			return fmt.Errorf("a page can have at most %d origins of one kind, not %d", maxOrigins, len(list))
		}
	}
	return nil
}

// maxOrigins limits the origins of one kind.
const maxOrigins = 32

// Valid returns the valid origins, at most 32 of each kind: the ones that a host allows, and tells the page in its
// capabilities. The result shares no memory with c.
func (c CSP) Valid() CSP {
	return CSP{valid(c.Connect), valid(c.Resource), valid(c.Frame), valid(c.Base)}
}

func valid(list []string) (all []string) {
	for _, text := range list[:min(len(list), maxOrigins)] {
		if isOrigin(text) {
			all = append(all, text)
		}
	}
	return all
}

// Policy returns the value of the header Content-Security-Policy with which a host serves the page. It forbids
// everything except the origins of Valid, including forms and plug-ins.
//
// The host appends frame-ancestors, and keeps the page in a sandboxed frame without allow-same-origin. A content
// security policy does not limit WebRTC: see docs/guide/apps.md.
func (c CSP) Policy() string {
	c = c.Valid()
	sources := func(list []string) string { return strings.Join(append([]string{""}, list...), " ") }
	orNone := func(list []string) string {
		if len(list) == 0 {
			return " 'none'"
		}
		return sources(list)
	}
	resource := sources(c.Resource)
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'unsafe-inline'" + resource,
		"style-src 'self' 'unsafe-inline'" + resource,
		"img-src 'self' data: blob:" + resource,
		"font-src 'self' data:" + resource,
		"media-src 'self' data: blob:" + resource,
		"connect-src" + orNone(c.Connect),
		"frame-src" + orNone(c.Frame),
		"object-src 'none'",
		"base-uri" + orNone(c.Base),
		"form-action 'none'",
	}, "; ")
}

// isOrigin reports whether text is an origin that can be a source of a content security policy.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "wss" || text != u.Scheme+"://"+u.Host {
		return false
	}
	host := strings.TrimPrefix(u.Host, "*.")
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-.:") == ""
}

// Who can use a tool, for [Show] and [mcp.Tool.VisibleTo].
const (
	Model = "model" // the model of the host
	App   = "app"   // the pages of the server
)

// toolMeta is the value of the key ui in the _meta of a tool.
type toolMeta struct {
	URI        string   `json:"resourceUri,omitempty"`
	Visibility []string `json:"visibility,omitempty"`
}

// Show returns t with the page that shows its results (2026-01-26, Resource Discovery). The page can be "" for a tool
// that only pages call. visibility contains [Model], [App] or both; none means both.
//
// Show panics if the URI does not begin with ui://, or if visibility contains anything else.
func Show(t mcp.Tool, page string, visibility ...string) mcp.Tool {
	if page != "" && !strings.HasPrefix(page, scheme) {
		panic(fmt.Sprintf("apps: the URI of a page must begin with ui://, not %q", page))
	}
	for _, name := range visibility {
		if name != Model && name != App {
			panic(fmt.Sprintf("apps: a tool is visible to %q or %q, not to %q", Model, App, name))
		}
	}
	t.Meta = withMeta(t.Meta, metaKey, toolMeta{page, visibility})
	if page != "" {
		t.Meta = withMeta(t.Meta, oldMetaKey, page)
	}
	return t
}

// PageOf returns the URI of the page that shows the results of a tool, or "".
func PageOf(t *mcp.Tool) string {
	var uri string
	if json.Unmarshal(member(t, "resourceUri"), &uri) != nil {
		_, _ = t.Meta.Get(oldMetaKey, &uri) // an invalid value names no page
	}
	if !strings.HasPrefix(uri, scheme) {
		return ""
	}
	return uri
}

// member returns a value from the object ui in the _meta of a tool, or nil.
func member(t *mcp.Tool, name string) jsontext.Value {
	var ui map[string]jsontext.Value
	_ = json.Unmarshal(t.Meta[metaKey], &ui) // an invalid one is empty
	return ui[name]
}
