package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// A program that cannot do without prompts says so before it begins.
func ExampleDialer_require() {
	d := client.Dialer{Require: mcp.ServerCapabilities{Prompts: &mcp.PromptsCapability{}}}
	_, err := d.Dial(context.Background(), weatherStation())
	var missing *client.MissingCapabilitiesError
	if errors.As(err, &missing) {
		fmt.Println(missing.Missing)
	}
	// Output:
	// [prompts]
}

// Clients that share a Cache share what their servers say is the same for everybody.
// What a client needs anew, it asks for with Fresh.
func ExampleCache() {
	shared := &client.Cache{MaxBytes: 64 << 20}
	d := client.Dialer{Cache: shared}
	c, err := d.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(context.Background(), client.Fresh()) {
		fmt.Println(tool.Name, err)
	}
	// Output:
	// measure <nil>
	// weather <nil>
}
