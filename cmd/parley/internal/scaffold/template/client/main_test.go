package main

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

type greeting struct {
	Name string `json:"name"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "test"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person"},
		func(_ context.Context, in greeting) (string, error) { return "Hello, " + in.Name + "!", nil })
	return s
}

// TestRun uses a server of every revision of the protocol, on every transport.
func TestRun(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for _, test := range []struct {
			args []string
			want string
		}{
			{nil, "greet: Greet a person\n"},
			{[]string{"greet", `{"name":"Ada"}`}, "Hello, Ada!\n"},
		} {
			var out strings.Builder
			if err := run(t.Context(), &out, c, test.args); err != nil || out.String() != test.want {
				t.Errorf("%v: %q, %v, want %q", test.args, out.String(), err, test.want)
			}
		}
	})
}
