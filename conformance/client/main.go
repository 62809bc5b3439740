// Command client is what the official conformance suite starts against its mock
// servers. The URL is its last argument; what to do there is in the environment:
//
//	MCP_CONFORMANCE_SCENARIO          the scenario's name
//	MCP_CONFORMANCE_PROTOCOL_VERSION  the revision to speak; empty: find out
//	MCP_CONFORMANCE_CONTEXT           what else a scenario has to know, as JSON
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

// patience is less than the suite's thirty seconds, so that we and not it have the
// last word.
const patience = 25 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) < 2 {
		return errors.New("the server's URL must be the last argument")
	}
	name, server := os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Args[len(os.Args)-1]
	scenario, ok := scenarios()[name]
	if isAuthorization(name) {
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
	answer(&d)
	if isAuthorization(name) {
		auth, err := authorization(name, server)
		if err != nil {
			return err
		}
		d.Auth = auth
	}
	return asRefused(name, play(ctx, &d, server, scenario))
}

func play(ctx context.Context, d *client.Dialer, server string, scenario func(context.Context, *client.Client) error) error {
	c, err := d.Dial(ctx, client.URL(server))
	if err != nil {
		return err
	}
	err = scenario(ctx, c)
	return errors.Join(err, c.Close())
}
