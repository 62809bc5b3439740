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
	server.AddTool(upstream, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) {
		return "Hello!", nil
	})
	upstreamHTTP := httptest.NewServer(upstream)
	defer upstreamHTTP.Close()

	h := &host.Host{Servers: []host.ServerConfig{{Name: "people", Target: client.URL(upstreamHTTP.URL)}}}
	s := &server.Server{Name: "gateway"}
	g, err := gateway.New(h, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
		_ = h.Close()
	}()

	gatewayHTTP := httptest.NewServer(s)
	defer gatewayHTTP.Close()
	c, err := client.Dial(ctx, client.URL(gatewayHTTP.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// Tools are registered when their server becomes ready.
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if text, err := client.CallTool[string](ctx, c, "people__greet", nil); err == nil {
			fmt.Println(text)
			return
		}
	}
	// Output: Hello!
}
