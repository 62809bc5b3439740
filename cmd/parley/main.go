// Command parley serves, combines and calls MCP servers.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"charm.land/lipgloss/v2"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, exitAtNextSignal)
	lipgloss.EnableLegacyWindowsANSI(os.Stderr)
	cmd, err := newRoot().ExecuteContextC(ctx)
	code := exitCode(ctx, err)
	if err != nil {
		printError(os.Stderr, err, code, formatOfErrors(cmd, os.Args[1:]))
	}
	os.Exit(code)
}

// exitAtNextSignal exits immediately at a second signal, without a graceful shutdown.
func exitAtNextSignal() {
	next := make(chan os.Signal, 1)
	signal.Notify(next, os.Interrupt, syscall.SIGTERM)
	<-next
	os.Exit(exitInterrupted)
}
