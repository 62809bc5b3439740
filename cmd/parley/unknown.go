package main

import (
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
)

// unknownName returns the error for a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	advice := fmt.Sprintf("list the server's %ss with parley ls", kind)
	if slices.Contains(names, "search_tools") && slices.Contains(names, "call_tool") { // see --discover of parley up
		advice = "the server does not list all tools: find it with search_tools, and call it with call_tool"
	}
	return nearest.Unknown(kind, name, names, advice)
}
