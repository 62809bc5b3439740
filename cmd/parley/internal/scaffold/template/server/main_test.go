package main

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcptest"
)

// TestGreet calls the tool in every revision of the protocol, on every transport.
func TestGreet(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		got, err := client.CallTool[string](t.Context(), c, "greet", greeting{Name: "Ada"})
		if err != nil || got != "Hello, Ada!" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestGreetNeedsAName(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	_, err := client.CallTool[string](t.Context(), c, "greet", greeting{})
	if _, ok := errors.AsType[*client.ToolError](err); !ok {
		t.Errorf("error %v, want a tool error", err)
	}
}
