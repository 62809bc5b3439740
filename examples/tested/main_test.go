package main

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcptest"
)

func TestLastReturnsTheLastNote(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		if text, err := client.CallTool[string](t.Context(), c, "add", note{"milk"}); err != nil || text != "added" {
			t.Fatalf("add: %q, %v", text, err)
		}
		if text, err := client.CallTool[string](t.Context(), c, "last", nil); err != nil || text != "milk" {
			t.Errorf("last: %q, %v", text, err)
		}
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
			if _, err := client.CallTool[string](t.Context(), c, "add", note{"milk"}); err != nil {
				t.Fatal(err)
			}
		default:
			return // the tool last was added
		}
	}
}
