package main

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addStreams adds the tool whose client is sent away while it runs.
func addStreams(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "test_reconnection", Description: "Closes its stream, and answers a client that comes back."},
		func(ctx context.Context, _ none) (string, error) {
			if err := server.CloseStream(ctx, 500*time.Millisecond); err != nil && !errors.Is(err, server.ErrUnsupported) {
				return "", err
			}
			select {
			case <-time.After(100 * time.Millisecond):
				return "The client has come back.", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
}
