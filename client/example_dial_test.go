package client_test

import (
	"context"
	"errors"
	"fmt"

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
