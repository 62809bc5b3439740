package client_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// Rule H10: over HTTP, icons are of the origin of the server. Everywhere, their schemes are safe.
func TestIconsAreOfTheServersOrigin(t *testing.T) {
	var icons mcp.Icons
	s := &server.Server{Name: "s", Version: "1"}
	web := httptest.NewTLSServer(s)
	defer web.Close()
	for _, src := range []string{
		web.URL + "/icon.png", "https://tracker.example/icon.png", "data:image/png;base64,AA==",
		"javascript:alert(1)", "file:///etc/passwd", "http://127.0.0.1/icon.png",
	} {
		icons = append(icons, mcp.Icon{Src: src})
	}
	type none struct{}
	s.Icons = icons
	link := &mcp.ResourceLink{URI: "note://a", Name: "a", Icons: icons}
	server.AddTool(s, mcp.Tool{Name: "a", Icons: icons}, func(context.Context, none) ([]mcp.Content, error) { return []mcp.Content{link}, nil })
	server.AddPrompt(s, mcp.Prompt{Name: "a", Icons: icons}, func(context.Context, none) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: link}}}, nil
	})
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a", Icons: icons}, "a")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "note://{x}", Name: "a", Icons: icons}, func(context.Context, struct {
		X string `json:"x"`
	}) (string, error) {
		return "", nil
	})
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for name, want := range map[string]int{"HTTP": 2, "memory": 3} {
			t.Run(string(r)+"/"+name, func(t *testing.T) {
				d := quiet()
				d.Revision, d.HTTPClient = r, web.Client()
				to := client.URL(web.URL)
				if name == "memory" {
					near, far := transport.Pipe()
					served := make(chan error, 1)
					go func() { served <- s.ServeConn(context.Background(), far) }()
					defer func() { <-served }()
					to = client.Conn(near)
				}
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				check := func(of string, icons mcp.Icons, err error) {
					if err != nil || len(icons) != want {
						t.Errorf("%s: %+v, %v; want %d icons", of, icons, err, want)
					}
				}
				check("server", c.Server().Info.Icons, nil)
				for tool, err := range c.Tools(t.Context()) {
					check("tool", tool.Icons, err)
				}
				for prompt, err := range c.Prompts(t.Context()) {
					check("prompt", prompt.Icons, err)
				}
				for resource, err := range c.Resources(t.Context()) {
					check("resource", resource.Icons, err)
				}
				for template, err := range c.ResourceTemplates(t.Context()) {
					check("template", template.Icons, err)
				}
				result, err := c.CallTool(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				check("link of a tool", result.Content[0].(*mcp.ResourceLink).Icons, nil)
				prompt, err := c.GetPrompt(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				check("link of a prompt", prompt.Messages[0].Content.(*mcp.ResourceLink).Icons, nil)
				found, err := c.Discover(t.Context(), client.WithRefresh())
				check("discovery", found.Server.Info.Icons, err)
			})
		}
	}
}
