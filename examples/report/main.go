// Command report is a server with a tool that takes longer than a client waits for a response. It
// runs as a task if the client supports tasks: the call returns at once, and the client asks for
// the outcome later.
//
//	go run ./examples/report -http 127.0.0.1:8080
//	parley call --task http://127.0.0.1:8080/mcp report months=3
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type period struct {
	Months int `json:"months" doc:"number of months" minimum:"1" maximum:"12"`
}

// newServer returns a server whose reports take some time per month.
func newServer(month time.Duration) *server.Server {
	s := &server.Server{Name: "report", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "report", Description: "Write a report"},
		func(ctx context.Context, in period) (string, error) {
			for i := range in.Months {
				_ = server.Progress(ctx, float64(i), float64(in.Months), fmt.Sprintf("reading month %d", i+1))
				select {
				case <-time.After(month): // stands for the work
				case <-ctx.Done(): // the client has cancelled the task, or the server stops
					return "", ctx.Err()
				}
			}
			return fmt.Sprintf("The report of %d months.", in.Months), nil
		},
		server.AsTask(server.TaskOptions{TTL: time.Hour, Timeout: 10 * time.Minute}))
	return s
}

func main() {
	server.Main(newServer(200 * time.Millisecond))
}
