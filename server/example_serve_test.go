package server_test

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A context that ends stops the server gracefully.
func ExampleServer_ListenAndServe() {
	s := &server.Server{Name: "clock", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "now", Description: "Tell the time"},
		func(context.Context, struct{}) (string, error) {
			return time.Now().Format(time.RFC3339), nil
		})
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond) // or signal.NotifyContext
	defer stop()
	fmt.Println(s.ListenAndServe(ctx, "127.0.0.1:0"))
	// Output: <nil>
}

func ExampleCompleteFrom() {
	s := &server.Server{Name: "travel", Version: "1.0.0"}
	server.AddPrompt(s, mcp.Prompt{Name: "plan"}, func(_ context.Context, in struct {
		City string `json:"city"`
	}) (string, error) {
		return "Plan two days in " + in.City, nil
	}, server.CompleteFrom("city", "Lima", "Lisbon", "Oslo", "Berlin"))

	c := inMemory(s)
	defer c.Close()
	found, err := c.Complete(context.Background(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "plan"},
		Argument: mcp.CompleteArgument{Name: "city", Value: "li"},
	})
	fmt.Println(found.Values, err)
	// Output: [Lima Lisbon Berlin] <nil>
}
