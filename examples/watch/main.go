// Command watch is a client that follows a server: it lists the tools anew whenever they
// change, and reads a resource whenever it is updated, in every revision and across
// reconnects. It ends when the resource has been updated as often as it is told.
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

// follow prints what changes until uri was updated n times.
func follow(ctx context.Context, out io.Writer, target client.Target, uri string, n int) error {
	c, err := client.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer c.Close()
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{uri}}) {
		if err != nil {
			return err
		}
		// Each thing that is watched begins with a change of which nobody is sure: what is
		// looked at then is what later changes are changes of.
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
		log.Fatal("usage: watch times URI server [argument…]")
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := follow(context.Background(), os.Stdout, client.Command(os.Args[3], os.Args[4:]...), os.Args[2], n); err != nil {
		log.Fatal(err)
	}
}
