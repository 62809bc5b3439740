package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// The first change of each kind is one of which nobody is sure: what is looked at then is
// what later changes are changes of.
func ExampleClient_Watch() {
	ctx := context.Background()
	s := &server.Server{Name: "shop", Version: "1.0.0"}
	s.DeclareTools() // none yet
	near, far := transport.Pipe()
	go s.ServeConn(ctx, far)
	c, err := client.Dial(ctx, client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			log.Fatal(err)
		}
		n := 0
		for tool, err := range c.Tools(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("there is", tool.Name)
			n++
		}
		if !change.Resync {
			break
		}
		fmt.Println("tools at first:", n)
		server.AddTool(s, mcp.Tool{Name: "buy"}, func(context.Context, struct{}) (string, error) { return "", nil })
	}
	// Output:
	// tools at first: 0
	// there is buy
}
