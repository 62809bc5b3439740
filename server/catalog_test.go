package server_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// What a Catalog, a Server and a struct that embeds one of them can be given is the same.
func TestEveryRegistrarHasEveryKindOfEntries(t *testing.T) {
	type plugin struct{ server.Catalog }
	_, root := tree(t, map[string]string{"a": ""})
	for _, to := range []server.Registrar{new(server.Catalog), new(server.Server), new(plugin),
		&struct{ *server.Server }{new(server.Server)}} {
		server.AddTool(to, mcp.Tool{Name: "a"}, nothing)
		server.AddPrompt(to, mcp.Prompt{Name: "a"}, nothing)
		server.AddResource(to, mcp.Resource{URI: "x:a", Name: "a"}, text("a"))
		server.AddStatic(to, mcp.Resource{URI: "x:b", Name: "b"}, "b")
		server.AddTemplate(to, mcp.ResourceTemplate{URITemplate: "x:{b}/c", Name: "b"},
			func(context.Context, map[string]string) (string, error) { return "", nil }, server.CompleteFrom("b", "a"))
		server.AddFS(to, "x:/d", root, server.FSOptions{}).Updated("a")
		server.AddExtension(to, server.Extension{ID: "com.example/a"})
		for name, add := range map[string]func(){
			"tool":     func() { server.AddTool(to, mcp.Tool{Name: "a"}, nothing) },
			"prompt":   func() { server.AddPrompt(to, mcp.Prompt{Name: "a"}, nothing) },
			"resource": func() { server.AddResource(to, mcp.Resource{URI: "x:b", Name: "a"}, text("a")) },
			"template": func() { server.AddFS(to, "x:/d", root, server.FSOptions{}) },
		} {
			must.CheckContains(t, panicOf(add), "already in use", to, name)
		}
	}
}
