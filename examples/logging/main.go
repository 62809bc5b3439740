// Command logging is a server that logs to stderr for the operator, and sends log messages to the
// client.
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

// newServer returns a server that writes JSON logs to operator. Do not log to stdout, which
// carries the protocol.
func newServer(operator io.Writer) *server.Server {
	logger := slog.New(slog.NewJSONHandler(operator, nil))
	s := &server.Server{Name: "logging", Version: "1.0.0", Logger: logger}
	server.AddTool(s, mcp.Tool{Name: "fetch", Description: "Fetch an item"},
		func(ctx context.Context, in order) (string, error) {
			logger.InfoContext(ctx, "fetching", "item", in.Item, "caller", server.PrincipalOf(ctx).String())
			// The client receives the levels that it has requested. By default, that is
			// none in 2026-07-28, which deprecates logging, and info and above in older
			// revisions.
			server.Logger(ctx).Warn("the item is nearly sold out", "left", 2)
			return "Here is the " + in.Item + ".", nil
		})
	return s
}

func main() {
	if err := newServer(os.Stderr).Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
