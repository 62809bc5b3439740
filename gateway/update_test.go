package gateway

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// offering returns what a gateway offers after its servers have had these tools,
// one after the other.
func offering(t *testing.T, after ...host.Status) map[string]*mcp.Tool {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &server.Server{Logger: quiet}
	g := New(&host.Host{}, s)
	g.Logger = quiet
	for _, status := range after {
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

func has(name string, tools ...mcp.Tool) host.Status {
	return host.Status{Name: name, State: host.Ready, Tools: tools, Server: client.Server{}}
}

func sorted(tools map[string]*mcp.Tool) []string {
	var all []string
	for name := range tools {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestChangedToolsReplaceWhatWasOffered(t *testing.T) {
	got := offering(t,
		has("a", mcp.Tool{Name: "stays"}, mcp.Tool{Name: "goes"}, mcp.Tool{Name: "changes", Description: "before"}),
		has("b", mcp.Tool{Name: "stays"}),
		has("a", mcp.Tool{Name: "comes"}, mcp.Tool{Name: "changes", Description: "after"}, mcp.Tool{Name: "stays"}),
	)
	if want := []string{"a__changes", "a__comes", "a__stays", "b__stays"}; !slices.Equal(sorted(got), want) {
		t.Fatalf("offered are %v, want %v", sorted(got), want)
	}
	if d := got["a__changes"].Description; d != "after" {
		t.Errorf("the changed tool's description is %q", d)
	}
}

func TestWhatCannotBeOfferedIsLeftOut(t *testing.T) {
	got := offering(t, has("a",
		mcp.Tool{Name: "fine"},
		mcp.Tool{Name: "fine", Description: "listed twice"},
		mcp.Tool{Name: "far", InputSchema: json.RawMessage(`{"type":"object","$ref":"https://example.com/schema"}`)},
		mcp.Tool{Name: "list", InputSchema: json.RawMessage(`{"type":"array"}`)},
		mcp.Tool{Name: "task", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}},
		mcp.Tool{Name: "maybe", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		mcp.Tool{Name: "vague", OutputSchema: json.RawMessage(`{"$ref":"https://example.com/schema"}`)},
	))
	if want := []string{"a__fine", "a__maybe", "a__vague"}; !slices.Equal(sorted(got), want) {
		t.Fatalf("offered are %v, want %v", sorted(got), want)
	}
	if got["a__fine"].Description != "" || got["a__maybe"].Execution != nil || got["a__vague"].OutputSchema != nil {
		t.Errorf("offered are %+v", got)
	}
}
