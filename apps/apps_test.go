package apps_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

const uri = "ui://weather/map"

// UI Resource Format: a client reads what the server has added.
func TestPageIsReadAsItWasAdded(t *testing.T) {
	want := apps.Page{
		URI: uri, Name: "map", Title: "Map", Description: "Shows rain",
		CSP: apps.CSP{Connect: []string{"https://api.example.com"}, Resource: []string{"https://*.example.com:8443"},
			Frame: []string{"https://video.example.com"}, Base: []string{"https://base.example.com"}},
		Permissions: []string{"camera", "clipboardWrite"}, Domain: "map.example.com", Border: new(false),
	}
	s := &server.Server{Name: "s", Version: "1"}
	apps.AddPage(s, want, "<p>map")
	apps.AddPage(s, apps.Page{URI: "ui://plain", Name: "plain"},
		func(context.Context) (string, error) { return "<p>plain", nil })
	apps.AddPage(s, apps.Page{URI: "ui://broken", Name: "broken"},
		func(context.Context) (string, error) { return "", errors.New("no template") })
	c := mcptest.Dial(t, s)
	listed := make(map[string]mcp.Resource)
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		listed[r.URI] = *r
	}
	got, html, err := apps.Read(t.Context(), c, listed[uri])
	must.Do(t, err)
	must.CheckThat(t, reflect.DeepEqual(got, want) && html == "<p>map", "got %+v, %q", got, html)
	got, html, err = apps.Read(t.Context(), c, mcp.Resource{URI: "ui://plain"})
	must.Do(t, err)
	must.CheckThat(t, reflect.DeepEqual(got, apps.Page{URI: "ui://plain"}) && html == "<p>plain",
		"got %+v, %q", got, html)
	if _, _, err := apps.Read(t.Context(), c, mcp.Resource{URI: "ui://broken"}); err == nil {
		t.Error("no error of the function")
	}
}

// contents contains the contents of a resource that a server returns.
type contents []mcp.ResourceContents

func (c contents) ReadResource(context.Context, string, ...client.CallOption) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: c}, nil
}

// Content Requirements.
func TestOtherContentsAreErrors(t *testing.T) {
	meta := func(ui string) mcp.Meta { return mcp.Meta{"ui": json.RawMessage(ui)} }
	for want, test := range map[string]struct {
		uri  string
		from contents
	}{
		"begin with ui://":  {"https://example.com", contents{{MimeType: apps.MIMEType}}},
		"one document":      {uri, contents{{MimeType: apps.MIMEType}, {MimeType: apps.MIMEType}}},
		`not "text/html"`:   {uri, contents{{MimeType: "text/html"}}},
		`not "text/plain;p`: {uri, contents{{MimeType: "text/plain;profile=mcp-app"}}},
		"UTF-8":             {uri, contents{{MimeType: apps.MIMEType, Blob: []byte("\xff")}}},
		"invalid _meta.ui":  {uri, contents{{MimeType: apps.MIMEType, Meta: meta(`{"csp":[]}`)}}},
	} {
		_, _, err := apps.Read(t.Context(), test.from, mcp.Resource{URI: test.uri})
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), want), "got %v, want an error with %q", err, want)
	}
}

// Metadata Location: the contents replace the entry of the list.
func TestContentsReplaceTheEntry(t *testing.T) {
	entry := mcp.Resource{URI: uri, Meta: mcp.Meta{"ui": json.RawMessage(`{"domain":"entry","prefersBorder":true}`)}}
	for want, meta := range map[string]mcp.Meta{
		"entry":    {"other": json.RawMessage(`1`)},
		"contents": {"ui": json.RawMessage(`{"domain":"contents","later":1,"permissions":{"camera":{"x":1}}}`)},
	} {
		from := contents{{MimeType: "text/html; profile=mcp-app", Blob: []byte("<p>"), Meta: meta}}
		p, html, err := apps.Read(t.Context(), from, entry)
		must.Do(t, err)
		must.CheckThat(t, p.Domain == want && (p.Border != nil) == (want == "entry") && html == "<p>",
			"%s: got %+v, %q", want, p, html)
	}
}

// Resource Discovery: both forms, and Visibility.
func TestToolsReferToPages(t *testing.T) {
	both := apps.Show(mcp.Tool{Name: "a", Meta: mcp.Meta{"example.com/x": json.RawMessage(`1`)}}, uri)
	must.Equal(t, string(both.Meta["ui"]), `{"resourceUri":"ui://weather/map"}`)
	must.Equal(t, string(both.Meta["ui/resourceUri"]), `"ui://weather/map"`)
	must.Equal(t, string(both.Meta["example.com/x"]), `1`)
	for _, test := range []struct {
		tool       mcp.Tool
		page       string
		model, app bool
	}{
		{both, uri, true, true},
		{apps.Show(mcp.Tool{}, "", apps.App), "", false, true},
		{apps.Show(mcp.Tool{}, uri, apps.Model), uri, true, false},
		{mcp.Tool{}, "", true, true},
		{meta(`{"visibility":[]}`, ``), "", false, false},
		{meta(`{"visibility":"app","resourceUri":"ui://a"}`, ``), "ui://a", false, false},
		{meta(`{"visibility":null}`, ``), "", true, true},
		{meta(`{"resourceUri":1}`, `"ui://old"`), "ui://old", true, true},
		{meta(`[]`, `"ui://old"`), "ui://old", true, true},
		{meta(`{"resourceUri":"https://example.com"}`, ``), "", true, true},
	} {
		page, model, app := apps.PageOf(&test.tool), test.tool.VisibleTo(apps.Model), test.tool.VisibleTo(apps.App)
		must.CheckThat(t, page == test.page && model == test.model && app == test.app,
			"%s: got %q, %t, %t", test.tool.Meta["ui"], page, model, app)
	}
}

// meta returns a tool with both forms of metadata.
func meta(ui, old string) (t mcp.Tool) {
	t.Meta = mcp.Meta{"ui": json.RawMessage(ui)}
	if old != "" {
		t.Meta["ui/resourceUri"] = json.RawMessage(old)
	}
	return t
}

// Content Security Policy Enforcement: the policy contains only what the page declares, and only origins.
func TestPolicyHasTheOriginsOfThePage(t *testing.T) {
	const none = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; connect-src 'none'; " +
		"frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'"
	must.Equal(t, apps.CSP{}.Policy(), none)
	must.Equal(t, apps.CSP{Connect: []string{"wss://a.example.com", "https://b.example.com:1"},
		Resource: []string{"https://*.example.com"}}.Policy(),
		strings.NewReplacer("connect-src 'none'", "connect-src wss://a.example.com https://b.example.com:1",
			"'unsafe-inline';", "'unsafe-inline' https://*.example.com;", "blob:;", "blob: https://*.example.com;",
			"font-src 'self' data:;", "font-src 'self' data: https://*.example.com;").Replace(none))
	var bad []string
	for _, text := range []string{"", "*", "https:", "https://*", "https://*.", "http://example.com", "'unsafe-eval'",
		"https://example.com/path", "https://example.com; script-src *", "https://example.com https://evil.example",
		"https://user@example.com", "https://example.com\n", "data:", "HTTPS://example.com", "//example.com"} {
		bad = append(bad, text)
		page := apps.Page{URI: uri, Name: "map", CSP: apps.CSP{Frame: []string{text}}}
		must.CheckThat(t, panics(func() { apps.AddPage(&server.Server{}, page, "") }), "AddPage accepts %q", text)
	}
	must.Equal(t, apps.CSP{bad, bad, bad, bad}.Policy(), none)
	many := slices.Repeat([]string{"https://example.com"}, 1000)
	must.Equal(t, strings.Count(apps.CSP{Connect: many}.Policy(), "https:"), 32)
	must.Equal(t, len(apps.CSP{Frame: append(bad[:3:3], many...)}.Valid().Frame), 29)
}

func TestInvalidDefinitionsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"scheme of a page":    func() { apps.AddPage(&server.Server{}, apps.Page{URI: "https://a", Name: "a"}, "") },
		"scheme of a tool":    func() { apps.Show(mcp.Tool{}, "https://a") },
		"unknown visibility":  func() { apps.Show(mcp.Tool{}, uri, "user") },
		"more than 32 frames": func() { apps.AddPage(&server.Server{}, apps.Page{URI: uri, Name: "a", CSP: tooMany}, "") },
	} {
		must.CheckThat(t, panics(f), "%s: no panic", name)
	}
}

var tooMany = apps.CSP{Frame: slices.Repeat([]string{"https://a.example"}, 33)}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// Capability Negotiation: handlers learn in every revision whether the client shows pages.
func TestHandlersLearnWhetherPagesAreShown(t *testing.T) {
	newServer := func() *server.Server {
		s := &server.Server{Name: "s", Version: "1"}
		server.AddTool(s, mcp.Tool{Name: "supported"}, func(ctx context.Context, _ struct{}) (string, error) {
			if apps.Supported(ctx) {
				return "yes", nil
			}
			return "no", nil
		})
		return s
	}
	call := func(t *testing.T, c *client.Client) string {
		return must.Get(client.CallTool[string](t.Context(), c, "supported", nil))(t)
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) { must.Equal(t, call(t, c), "yes") },
		func(d *client.Dialer) { d.Extensions = append(d.Extensions, apps.Extension()) })
	must.Equal(t, call(t, mcptest.Dial(t, newServer())), "no")
	other := client.Extension{ID: mcp.ExtensionApps, Settings: map[string][]string{"mimeTypes": {"text/html"}}}
	must.Equal(t, call(t, mcptest.Dial(t, newServer(), func(d *client.Dialer) {
		d.Extensions = append(d.Extensions, other)
	})), "no")
	must.Equal(t, apps.Supported(t.Context()), false)
}
