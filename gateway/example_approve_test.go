package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The client's user is asked about each call that the policy does not allow by
// itself.
func ExampleApprove() {
	upstream := &server.Server{Name: "greeter"}
	server.AddTool(upstream, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) {
		return "Hello!", nil
	})
	upstreamHTTP := httptest.NewServer(upstream)
	defer upstreamHTTP.Close()

	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "people", Target: client.URL(upstreamHTTP.URL)}},
		Policy:  host.Rules{Default: host.Ask, Version: "1"},
		Approve: gateway.Approve,
		Logger:  slog.New(slog.DiscardHandler),
	}
	s := &server.Server{Name: "gateway"}
	g, err := gateway.New(h, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = g.Serve(context.Background(), func(ctx context.Context) error {
		if err := g.WaitReady(ctx); err != nil {
			return err
		}
		gatewayHTTP := httptest.NewServer(s)
		defer gatewayHTTP.Close()
		d := client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(form.Message)
			return mcp.AcceptElicit(map[string]string{"approve": "once"})
		}}
		c, err := d.Dial(ctx, client.URL(gatewayHTTP.URL))
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := client.CallTool[string](ctx, c, "people__greet", nil)
		fmt.Println(text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// Allow the tool "greet" of the server "people"?
	//
	// Arguments: {}
	//
	// Caller: a client without a login, which calls itself "parley"
	// Reason for the question: no rule of the policy matches
	// Hello!
}
