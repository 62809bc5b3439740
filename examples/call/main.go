// Command call is a client that starts a server, lists its tools and calls one. After an error it says what the program
// can do.
//
//	go run ./examples/call greet '{"name":"Ada"}' go run ./examples/hello
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// run calls a tool. For a server over HTTP, the target is client.URL("https://…").
func run(ctx context.Context, out io.Writer, target client.Target, tool string, arguments json.RawMessage) error {
	d := client.Dialer{Name: "call", Version: "1.0.0", Timeouts: client.Timeouts{Tool: 5 * time.Minute}}
	c, err := d.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(out, "%s uses revision %s\n", c.Server().Info.Name, c.Revision())
	for t, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "- %s: %s\n", t.Name, t.Description)
	}
	result, err := c.CallTool(ctx, tool, arguments)
	if err != nil {
		return err // a protocol or connection error; the tool has returned no result
	}
	if result.IsError {
		return &client.ToolError{Tool: tool, Result: result}
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			fmt.Fprintln(out, text.Text)
		}
	}
	return nil
}

// advice says what a program can do after the error of a call.
func advice(err error) string {
	var failed *client.ToolError
	var overload *call.OverloadError
	var status *call.StatusError
	var unreachable *client.DialError
	var reported *jsonrpc.Error
	switch {
	case errors.As(err, &failed):
		return "the tool has failed: let the model read the text and correct the arguments"
	case errors.As(err, &overload):
		return fmt.Sprintf("the server is busy: repeat the call in %v", overload.RetryAfter)
	case errors.Is(err, call.ErrUnauthorized), errors.As(err, &status) && status.Status == http.StatusUnauthorized:
		return "the server has not run the tool: it requires credentials"
	case errors.As(err, &unreachable), errors.Is(err, call.ErrNotSent):
		return "the tool has not run: repeat the call when the server can be reached"
	case errors.As(err, &reported):
		return "the server has rejected the call: correct the name of the tool"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, call.ErrConnectionLost):
		return "the tool may have run: repeat the call only if that does no harm"
	}
	return "the call cannot be repeated as it is"
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: call TOOL ARGUMENTS COMMAND [ARGUMENT…]")
	}
	target := client.Command(os.Args[3], os.Args[4:]...)
	if err := run(context.Background(), os.Stdout, target, os.Args[1], json.RawMessage(os.Args[2])); err != nil {
		log.Fatalf("%v\n%s", err, advice(err))
	}
}
