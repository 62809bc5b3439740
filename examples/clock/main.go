// Command clock is a server that notifies its clients of changes: of a resource that is updated
// every second, and of its list of tools, which contains cancel_timer while a timer is set.
//
//	parley watch clock://now --read -- go run ./examples/clock
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const now = "clock://now"

type clock struct {
	server *server.Server

	mu    sync.Mutex
	ticks int
}

func newClock() *clock {
	c := &clock{server: &server.Server{Name: "clock", Version: "1.0.0"}}
	server.AddResource(c.server, mcp.Resource{URI: now, Name: "now", MimeType: "text/plain"},
		func(context.Context) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return (time.Duration(c.ticks) * time.Second).String(), nil
		})
	server.AddTool(c.server, mcp.Tool{Name: "set_timer", Description: "Set a timer"}, c.setTimer)
	return c
}

// run updates the resource at each tick until ctx is done. It notifies the subscribers without
// waiting for them.
func (c *clock) run(ctx context.Context, tick time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.mu.Lock()
			c.ticks++
			c.mu.Unlock()
			c.server.ResourceUpdated(now)
		case <-ctx.Done():
			return
		}
	}
}

// setTimer adds a tool. The server notifies the clients.
func (c *clock) setTimer(context.Context, struct{}) (string, error) {
	err := c.server.RegisterTool(
		mcp.Tool{Name: "cancel_timer", Description: "Cancel the timer",
			InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			c.server.RemoveTool("cancel_timer")
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("The timer is cancelled.")}}, nil
		})
	if err != nil {
		return "", err // for example if the timer is already set
	}
	return "The timer is set.", nil
}

func main() {
	tick := time.Second
	if len(os.Args) > 1 {
		var err error
		if tick, err = time.ParseDuration(os.Args[1]); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := newClock()
	go c.run(ctx, tick)
	if err := c.server.Run(ctx); err != nil {
		log.Print(err)
	}
}
