package main

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addStreams adds the tool that closes the stream of its call.
func addStreams(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "test_reconnection",
		Description: "Closes its stream and returns a result to the reconnected client."},
		func(ctx context.Context, _ none) (string, error) {
			if err := server.CloseStream(ctx, 500*time.Millisecond); err != nil &&
				!errors.Is(err, errors.ErrUnsupported) {
				return "", err
			}
			if err := work(ctx, 100*time.Millisecond); err != nil {
				return "", err
			}
			return "The client has reconnected.", nil
		})
}
