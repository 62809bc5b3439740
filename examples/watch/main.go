// Command watch is a client that watches a server: it lists the tools when the list changes, and
// reads a resource when the resource is updated, in every revision and across reconnections.
// It exits after the given number of updates.
//
//	go run ./examples/watch 5 clock://now go run ./examples/clock
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/parley-mcp/parley/client"
)

// watch prints the changes of a server until the resource uri has been updated n times.
func watch(ctx context.Context, out io.Writer, target client.Target, uri string, n int) error {
	c, err := client.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer c.Close()
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{uri}}) {
		if err != nil {
			return err
		}
		// The watch of each list and resource begins with one change whose Resync is true, so
		// that the client fetches the current state.
		switch change.Kind {
		case client.ToolsChanged:
			for tool, err := range c.Tools(ctx) {
				if err != nil {
					return err
				}
				fmt.Fprintln(out, "tool", tool.Name)
			}
		case client.ResourceUpdated:
			result, err := c.ReadResource(ctx, change.URI)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, change.URI, result.Contents[0].Text)
			if n--; n < 0 {
				return nil
			}
		}
	}
	return ctx.Err()
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: watch UPDATES URI COMMAND [ARGUMENT…]")
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := watch(context.Background(), os.Stdout, client.Command(os.Args[3], os.Args[4:]...), os.Args[2],
		n); err != nil {
		log.Fatal(err)
	}
}
