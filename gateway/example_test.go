package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func Example() {
	upstream := &server.Server{Name: "greeter"}
	server.AddTool(upstream, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) { return "Hello!", nil })
	behind := httptest.NewServer(upstream)
	defer behind.Close()

	h := &host.Host{Servers: []host.Server{{Name: "people", Target: client.URL(behind.URL)}}}
	face := &server.Server{Name: "gateway"}
	g := gateway.New(h, face)
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		g.Run(ctx)
	}()
	defer func() {
		stop()
		<-ran
		_ = h.Close()
	}()

	front := httptest.NewServer(face)
	defer front.Close()
	c, err := client.Dial(ctx, client.URL(front.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// Tools appear as their servers come up.
	for _, err := range c.Watch(ctx, client.WatchOptions{Tools: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if text, err := client.Call[string](ctx, c, "people__greet", nil); err == nil {
			fmt.Println(text)
			return
		}
	}
	// Output: Hello!
}
