// Command call is a client that starts a server, lists its tools and calls one.
//
//	go run ./examples/call greet '{"name":"Ada"}' go run ./examples/hello
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// run calls a tool. For a server over HTTP, the target is client.URL("https://…").
func run(ctx context.Context, out io.Writer, target client.Target, tool string, arguments json.RawMessage) error {
	c, err := client.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(out, "%s uses revision %s\n", c.Server().Info.Name, c.Revision())
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "- %s: %s\n", tool.Name, tool.Description)
	}
	result, err := c.CallTool(ctx, tool, arguments)
	if err != nil {
		return err // a protocol or connection error; the tool has returned no result
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			fmt.Fprintln(out, text.Text)
		}
	}
	if result.IsError {
		return fmt.Errorf("tool %s returned an error", tool)
	}
	return nil
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: call TOOL ARGUMENTS COMMAND [ARGUMENT…]")
	}
	target := client.Command(os.Args[3], os.Args[4:]...)
	if err := run(context.Background(), os.Stdout, target, os.Args[1], json.RawMessage(os.Args[2])); err != nil {
		log.Fatal(err)
	}
}
