package guide_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func Example_client() {
	ctx := context.Background()
	s := &server.Server{Name: "demo", Version: "1.0.0", Limits: server.Limits{PageSize: 2}}
	for _, name := range []string{"first", "second", "third"} {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, _ struct{}) (string, error) {
			server.Logger(ctx).Warn("the disk is nearly full")
			return "done", nil
		})
	}
	here, there := transport.Pipe() // or client.Command, or client.URL
	go func() { _ = s.ServeConn(ctx, there) }()

	d := client.Dialer{
		Revision: mcp.V20251125, // without it, the newest that both sides support
		OnLog: func(_ context.Context, message mcp.LoggingMessageParams) {
			fmt.Printf("%s: %s\n", message.Level, message.Data)
		},
	}
	c, err := d.Dial(ctx, client.Conn(here))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	has := c.Server().Capabilities
	fmt.Printf("revision %s, tools: %t, prompts: %t\n", c.Revision(), has.Tools != nil, has.Prompts != nil)
	for tool, err := range c.Tools(ctx) { // two pages
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name)
	}
	if err := c.SetLogLevel(ctx, mcp.LevelWarning); err != nil {
		log.Fatal(err)
	}
	text, err := client.CallTool[string](ctx, c, "third", nil)
	fmt.Println(text, err, c.Ping(ctx))
	// Output:
	// revision 2025-11-25, tools: true, prompts: false
	// first
	// second
	// third
	// warning: {"message":"the disk is nearly full"}
	// done <nil> <nil>
}

func Example_roots() {
	ctx := context.Background()
	s := &server.Server{Name: "demo", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "where"}, func(ctx context.Context, _ struct{}) (string, error) {
		roots, err := server.Roots(ctx)
		if err != nil || len(roots) == 0 {
			return "nowhere", err
		}
		return roots[0].URI, nil
	})
	here, there := transport.Pipe()
	go func() { _ = s.ServeConn(ctx, there) }()

	var directory atomic.Value
	directory.Store("file:///home/ada")
	d := client.Dialer{Roots: func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: directory.Load().(string)}}, nil
	}}
	c, err := d.Dial(ctx, client.Conn(here))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(client.CallTool[string](ctx, c, "where", nil))
	directory.Store("file:///home/grace")
	err = c.NotifyRootsChanged(ctx) // notifications/roots/list_changed, in a session
	text, _ := client.CallTool[string](ctx, c, "where", nil)
	fmt.Println(text, err)
	// Output:
	// file:///home/ada <nil>
	// file:///home/grace <nil>
}
