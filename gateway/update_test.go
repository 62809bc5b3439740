package gateway

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// toolsAfter returns the tools that a gateway lists after a sequence of updates.
func toolsAfter(t *testing.T, updates ...host.ServerStatus) map[string]*mcp.Tool {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &server.Server{Logger: quiet}
	g := New(&host.Host{}, s)
	g.Logger = quiet
	for _, status := range updates {
		g.update(status)
	}
	tools := make(map[string]*mcp.Tool)
	for tool, err := range mcptest.Dial(t, s).Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	return tools
}

// statusOf returns the status of a server with these tools.
func statusOf(name string, definitions ...mcp.Tool) host.ServerStatus {
	status := host.ServerStatus{Name: name, State: host.Ready}
	for _, d := range definitions {
		status.Tools = append(status.Tools, host.MergedTool{Name: name + "__" + d.Name, Server: name, Definition: d})
	}
	return status
}

func sortedNames(tools map[string]*mcp.Tool) []string {
	return slices.Sorted(maps.Keys(tools))
}

func TestUpdateReplacesChangedTools(t *testing.T) {
	got := toolsAfter(t,
		statusOf("a", mcp.Tool{Name: "same"}, mcp.Tool{Name: "removed"}, mcp.Tool{Name: "changed", Description: "before"}),
		statusOf("b", mcp.Tool{Name: "same"}),
		statusOf("a", mcp.Tool{Name: "added"}, mcp.Tool{Name: "changed", Description: "after"}, mcp.Tool{Name: "same"}),
	)
	if want := []string{"a__added", "a__changed", "a__same", "b__same"}; !slices.Equal(sortedNames(got), want) {
		t.Fatalf("tools are %v, want %v", sortedNames(got), want)
	}
	if d := got["a__changed"].Description; d != "after" {
		t.Errorf("the description of the changed tool is %q, want %q", d, "after")
	}
}

func TestInvalidToolsAreNotRegistered(t *testing.T) {
	got := toolsAfter(t, statusOf("a",
		mcp.Tool{Name: "fine"},
		mcp.Tool{Name: "fine", Description: "listed twice"},
		mcp.Tool{Name: "far", InputSchema: json.RawMessage(`{"type":"object","$ref":"https://example.com/schema"}`)},
		mcp.Tool{Name: "list", InputSchema: json.RawMessage(`{"type":"array"}`)},
		mcp.Tool{Name: "task", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}},
		mcp.Tool{Name: "maybe", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		mcp.Tool{Name: "vague", OutputSchema: json.RawMessage(`{"$ref":"https://example.com/schema"}`)},
	))
	if want := []string{"a__fine", "a__maybe", "a__vague"}; !slices.Equal(sortedNames(got), want) {
		t.Fatalf("tools are %v, want %v", sortedNames(got), want)
	}
	if got["a__fine"].Description != "" || got["a__maybe"].Execution != nil || got["a__vague"].OutputSchema != nil {
		t.Errorf("tools are %+v", got)
	}
}
