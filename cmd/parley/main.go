// Command parley serves, combines and calls MCP servers.
package main

import (
	"os"

	"charm.land/lipgloss/v2"
)

func main() {
	ctx := notifyContext()
	lipgloss.EnableLegacyWindowsANSI(os.Stderr)
	cmd, err := newRoot().ExecuteContextC(ctx)
	code := exitCode(ctx, err)
	if err != nil {
		printError(os.Stderr, err, code, formatOfErrors(cmd, os.Args[1:]))
	}
	os.Exit(code)
}
