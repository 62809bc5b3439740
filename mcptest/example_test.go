package mcptest_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func newGreeter() *server.Server {
	s := &server.Server{Name: "greeter"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	return s
}

// The body of a test; t is its argument.
func ExampleDial() {
	var t *testing.T
	c := mcptest.Dial(t, newGreeter(), mcptest.WithRevision(mcp.V20250618))
	text, err := client.CallTool[string](t.Context(), c, "greet", map[string]string{"name": "Ada"})
	must.CheckThat(t, err == nil && text == "Hello, Ada!", "%q, %v", text, err)
}

func ExampleEverywhere() {
	var t *testing.T
	mcptest.Everywhere(t, newGreeter, func(t *testing.T, c *client.Client) {
		text := must.Get(client.CallTool[string](t.Context(), c, "greet", map[string]string{"name": "Ada"}))(t)
		must.CheckEqual(t, text, "Hello, Ada!")
	})
}
