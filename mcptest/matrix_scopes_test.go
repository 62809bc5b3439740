package mcptest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// scoped returns a server whose tools, prompt, resource and template require scopes.
func scoped(granted ...string) func() *server.Server {
	return func() *server.Server {
		s := &server.Server{LocalScopes: granted}
		ok := func(context.Context) (string, error) { return "ok", nil }
		server.AddTool(s, mcp.Tool{Name: "t", Description: "A tool."}, func(ctx context.Context, _ struct{}) (string, error) { return ok(ctx) },
			server.RequireScopes("tool", "more"), server.RequireScopes("tool"))
		server.AddTool(s, mcp.Tool{Name: "late", Description: "Requires its scope in the handler."}, func(ctx context.Context, _ struct{}) (string, error) {
			return "ok", auth.Require(ctx, "tool")
		})
		server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(ctx context.Context, _ struct {
			A string `json:"a,omitempty" enum:"x,y"`
		}) (string, error) {
			return ok(ctx)
		}, server.RequireScopes("prompt"))
		server.AddResource(s, mcp.Resource{URI: "note://a", Name: "a"}, ok, server.RequireScopes("resource"))
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "x"}, func(ctx context.Context, _ struct {
			X string `json:"x"`
		}) (string, error) {
			return ok(ctx)
		}, server.RequireScopes("template"))
		return s
	}
}

// uses returns functions that use the parts of the server, by the required scopes.
func uses(c *client.Client) map[string]func(context.Context) error {
	tool := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := client.CallTool[string](ctx, c, name, nil); return err }
	}
	read := func(uri string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.ReadResource(ctx, uri); return err }
	}
	return map[string]func(context.Context) error{
		"tool more": tool("t"), "tool": tool("late"), "resource": read("note://a"), "template": read("t://b"),
		"prompt": func(ctx context.Context) error { _, err := c.GetPrompt(ctx, "p", nil); return err },
	}
}

func TestErrorNamesMissingScopes(t *testing.T) {
	everywhere(t, scoped(), func(t *testing.T, c *client.Client) {
		for scopes, use := range uses(c) {
			err := use(t.Context())
			var reported *jsonrpc.Error
			if !errors.As(err, &reported) || !strings.HasSuffix(reported.Message, "insufficient scope: the call needs "+scopes) ||
				!strings.Contains(string(reported.Data), strings.Split(scopes, " ")[0]) {
				t.Errorf("%s: %v", scopes, err)
			}
		}
		n := 0
		for range c.Tools(t.Context()) {
			n++
		}
		if n != 2 {
			t.Errorf("%d tools are listed, want 2: scopes do not hide tools", n)
		}
	})
}

func TestLocalScopesAreNotGrantedOverHTTP(t *testing.T) {
	everywhere(t, scoped("tool", "more", "prompt", "resource", "template"), func(t *testing.T, c *client.Client) {
		if strings.Contains(t.Name(), "http") {
			if err := uses(c)["tool"](t.Context()); err == nil {
				t.Error("a client over HTTP has LocalScopes")
			}
			return
		}
		for scopes, use := range uses(c) {
			if err := use(t.Context()); err != nil {
				t.Errorf("%s: %v", scopes, err)
			}
		}
	})
}
