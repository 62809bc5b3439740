package demo_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcptest"
)

func TestWatchersAreNotifiedOfNotesAndTools(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		begun := 0
		var seen []client.Change
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"demo://notes"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if !change.Resync {
				if seen = append(seen, change); len(seen) == 2 {
					break
				}
				continue
			}
			if begun++; begun != 2 {
				continue
			}
			if _, err := c.CallTool(ctx, "note", map[string]string{"text": "one\ntwo"}); err != nil {
				t.Error(err)
			}
			if _, err := c.CallTool(ctx, "shop", map[string]bool{"open": true}); err != nil {
				t.Error(err)
			}
		}
		for _, want := range []client.Change{{Kind: client.ResourceUpdated, URI: "demo://notes"},
			{Kind: client.ToolsChanged}} {
			if !slices.Contains(seen, want) {
				t.Errorf("changes %+v, missing %+v", seen, want)
			}
		}
		got, err := c.ReadResource(ctx, "demo://notes")
		if err != nil || got.Contents[0].Text != "- one two\n" {
			t.Errorf("notes: %+v, %v", got, err)
		}
		if got, err := client.CallTool[string](ctx, c, "buy", map[string]string{"thing": "bread"}); err != nil ||
			!strings.Contains(got, "bread") {
			t.Errorf("buy returned %q, %v", got, err)
		}
		if _, err := c.CallTool(ctx, "shop", map[string]bool{"open": false}); err != nil {
			t.Error(err)
		}
		if _, err := c.CallTool(ctx, "buy", map[string]string{"thing": "bread"}); err == nil {
			t.Error("buy exists after the shop has closed")
		}
	})
}

func TestNumberOfNotesIsLimited(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	for range 30 {
		if _, err := c.CallTool(t.Context(), "note", map[string]string{"text": "again"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.ReadResource(t.Context(), "demo://notes")
	if err != nil || strings.Count(got.Contents[0].Text, "\n") != 20 {
		t.Errorf("notes: %+v, %v", got, err)
	}
}
