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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = g.Serve(ctx, func(ctx context.Context) error {
		gatewayHTTP := httptest.NewServer(s)
		defer gatewayHTTP.Close()
		c, err := client.Dial(ctx, client.URL(gatewayHTTP.URL))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := g.WaitReady(ctx); err != nil {
			return err
		}
		text, err := client.CallTool[string](ctx, c, "people__greet", nil)
		fmt.Println(text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: Hello!
}
