// Command myproject lists the tools of an MCP server, and calls one of them:
//
//	go run . https://mcp.example.com/mcp
//	go run . https://mcp.example.com/mcp greet '{"name":"Ada"}'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/parley-mcp/parley/client"
)

// run prints the tools of the server, or the result of the tool that args name, with its arguments as JSON.
func run(ctx context.Context, out io.Writer, c *client.Client, args []string) error {
	if len(args) == 0 {
		for tool, err := range c.Tools(ctx) {
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: %s\n", tool.Name, tool.Description)
		}
		return nil
	}
	arguments := json.RawMessage("{}")
	if len(args) > 1 {
		arguments = json.RawMessage(args[1])
	}
	text, err := client.CallTool[string](ctx, c, args[0], arguments)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, text)
	return nil
}

func dialAndRun(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: myproject URL [TOOL [ARGUMENTS]]")
	}
	// To start a server instead, use client.Command("npx", "-y", "some-server").
	d := client.Dialer{Name: "myproject", Version: "0.1.0", Timeouts: client.Timeouts{Tool: 5 * time.Minute}}
	c, err := d.Dial(ctx, client.URL(args[0]))
	if err != nil {
		return err
	}
	defer c.Close()
	return run(ctx, os.Stdout, c, args[1:])
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := dialAndRun(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
