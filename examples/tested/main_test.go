package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

func TestLastReturnsTheLastNote(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		if _, err := client.CallTool[string](t.Context(), c, "add", note{"milk"}); err != nil {
			t.Fatal(err)
		}
		if text, err := client.CallTool[string](t.Context(), c, "last", nil); err != nil || text != "milk" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestEmptyNotesAreRejected(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	_, err := client.CallTool[string](t.Context(), c, "add", note{})
	if _, ok := errors.AsType[*client.ToolError](err); !ok {
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
			return // the tool "last" was added
		}
	}
}

var update = flag.Bool("update", false, "write testdata/tools.json")

// Models read the names, descriptions and schemas of the tools, so a person should review each change.
func TestToolsAreAsReviewed(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	var tools []*mcp.Tool
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	got, err := json.MarshalIndent(tools, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/tools.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != string(got) {
		t.Errorf("%v: the tools differ from %s; if they are right, run go test -update\n%s", err, golden, got)
	}
}

func BenchmarkAdd(b *testing.B) {
	s := newServer()
	s.Limits.CallsPerSecond = -1 // no limit, because a benchmark makes more than the default of 1,000
	c := mcptest.Dial(b, s)
	for b.Loop() {
		if _, err := client.CallTool[string](b.Context(), c, "add", note{"milk"}); err != nil {
			b.Fatal(err)
		}
	}
}
