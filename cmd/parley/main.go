// Command parley serves, combines and calls MCP servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"charm.land/lipgloss/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, exitAtNextSignal)
	lipgloss.EnableLegacyWindowsANSI(os.Stderr)
	err := newRoot().ExecuteContext(ctx)
	if err != nil {
		printError(os.Stderr, err)
	}
	os.Exit(exitCode(ctx, err))
}

// exitAtNextSignal exits immediately at a second signal, without a graceful shutdown.
func exitAtNextSignal() {
	next := make(chan os.Signal, 1)
	signal.Notify(next, os.Interrupt, syscall.SIGTERM)
	<-next
	os.Exit(exitInterrupted)
}

// printError writes an error as one line. It sanitises text that comes from a server.
func printError(w io.Writer, err error) {
	var reported *reportedError
	switch {
	case errors.As(err, &reported):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "parley: interrupted")
	default:
		fmt.Fprintln(w, "parley: "+terminal.Line(explain(err)))
	}
}
