// Command progress has a tool that takes its time, says how far it is, and stops
// when it is told to.
//
//	parley call count to=30 -- go run ./examples/progress
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type counting struct {
	To    int           `json:"to" doc:"how far to count" minimum:"1" maximum:"1000"`
	Pause time.Duration `json:"pause,omitzero" doc:"before each number" default:"100ms"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "progress", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count slowly"}, count)
	return s
}

func count(ctx context.Context, in counting) (string, error) {
	for i := range in.To {
		select {
		case <-time.After(in.Pause):
		case <-ctx.Done(): // the client has cancelled, or is gone
			return "", fmt.Errorf("stopped at %d: %w", i, context.Cause(ctx))
		}
		// Nothing is sent to a client that has not asked for progress.
		if err := server.Progress(ctx, float64(i+1), float64(in.To), fmt.Sprintf("at %d", i+1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("counted to %d", in.To), nil
}

func main() {
	if err := newServer().Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
