package main

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcptest"
)

func TestLastReturnsTheLastNote(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "add", note{"milk"}))(t), "added")
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "last", nil))(t), "milk")
	})
}

func TestEmptyNotesAreRejected(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	_, err := client.CallTool[string](t.Context(), c, "add", note{})
	var failed *client.ToolError
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want a tool error", err)
	}
}

func TestWatchersAreNotifiedOfNewTools(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	for change, err := range c.Watch(t.Context(), client.WatchFilter{Tools: true}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case change.Resync: // the watch has started
			must.Get(client.CallTool[string](t.Context(), c, "add", note{"milk"}))(t)
		default:
			return // the tool last was added
		}
	}
}
