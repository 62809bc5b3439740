package main

import (
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
)

// unknownName returns the error for a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	if near := nearest.Name(name, names); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %s?", kind, name, quoting.OfUser().Quote(near))
	}
	if slices.Contains(names, "search_tools") && slices.Contains(names, "call_tool") { // see discoverHelp
		return fmt.Errorf("unknown %s %q; the server does not list all tools: find it with search_tools, and call it with call_tool", kind, name)
	}
	return fmt.Errorf("unknown %s %q; list the server's %ss with parley ls", kind, name, kind)
}
