// Command logging logs to two readers: what the operator should know goes to standard
// error, what the client should know to the client.
//
//	parley call fetch item=wine --log-level info --verbose -- go run ./examples/logging
package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type order struct {
	Item string `json:"item"`
}

// newServer logs as JSON to operator. Standard output is not for logs: it carries
// the protocol.
func newServer(operator io.Writer) *server.Server {
	logger := slog.New(slog.NewJSONHandler(operator, nil))
	s := &server.Server{Name: "logging", Version: "1.0.0", Logger: logger}
	server.AddTool(s, mcp.Tool{Name: "fetch", Description: "Fetch something from the cellar"},
		func(ctx context.Context, in order) (string, error) {
			logger.InfoContext(ctx, "fetching", "item", in.Item, "caller", server.PrincipalOf(ctx).String())
			// The client gets what it has asked for: by default nothing in 2026-07-28,
			// where the protocol's logging is deprecated, and info and above before.
			//lint:ignore SA1019 it is what this example is about
			server.Logger(ctx).Warn("the stairs are slippery", "steps", 12)
			return "Here is the " + in.Item + ".", nil
		})
	return s
}

func main() {
	if err := newServer(os.Stderr).Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
