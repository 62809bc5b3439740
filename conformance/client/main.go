// Command client is the client that the official conformance suite runs against its mock servers. The last argument
// is the URL of the server. These environment variables select the scenario:
//
//	MCP_CONFORMANCE_SCENARIO          the name of the scenario
//	MCP_CONFORMANCE_PROTOCOL_VERSION  the revision to use; empty for automatic selection
//	MCP_CONFORMANCE_CONTEXT           the parameters of the scenario, as JSON
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// timeout is less than the 30 seconds of the suite, so that the error of the client is recorded.
const timeout = 25 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) < 2 {
		return errors.New("the last argument must be the URL of the server")
	}
	name, server := os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Args[len(os.Args)-1]
	scenario, ok := scenarios()[name]
	if !ok && isAuthorization(name) {
		scenario, ok = callTestTool, true
	}
	if !ok {
		return fmt.Errorf("scenario %q is not implemented", name)
	}
	d := client.Dialer{
		Name:     "parley-conformance",
		Version:  "1.0.0",
		Revision: mcp.Revision(os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")),
		Trace:    func(sent bool, message []byte) { fmt.Fprintf(os.Stderr, "sent=%t %s\n", sent, message) },
	}
	answerElicitation(&d)
	if isAuthorization(name) {
		auth, err := newAuth(name, server)
		if err != nil {
			return err
		}
		d.Auth = auth
	}
	return checkError(name, play(ctx, &d, server, scenario))
}

func play(ctx context.Context, d *client.Dialer, server string,
	scenario func(context.Context, *client.Client) error) error {
	c, err := d.Dial(ctx, client.URL(server))
	if err != nil {
		return err
	}
	err = scenario(ctx, c)
	return errors.Join(err, c.Close())
}
