// Command parley serves, combines and calls MCP servers.
package main

import (
	"context"
	"os"

	"charm.land/lipgloss/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
)

func main() { os.Exit(runMain(program.NotifyContext(), os.Args[1:])) }

// runMain runs a command line, and returns the exit code.
func runMain(ctx context.Context, args []string) int {
	if code, isStep := confine.Main(args); isStep {
		return code
	}
	lipgloss.EnableLegacyWindowsANSI(os.Stderr)
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := failure.Code(ctx, err)
	if err != nil {
		failure.Print(os.Stderr, err, code, failure.FormatOf(cmd, args))
	}
	return code
}
