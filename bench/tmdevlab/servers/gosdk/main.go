// Command gosdk serves the tools with the official Go SDK.
package main

import (
	"context"
	"flag"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-mcp/parley/bench/tmdevlab/shop"
)

func main() {
	sessions := flag.Bool("sessions", false, "serve sessions and event streams, as this SDK does by default")
	w, _ := shop.Parse("gosdk")
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "search_products", Description: shop.SearchText}, handler(w.Search))
	mcp.AddTool(s, &mcp.Tool{Name: "get_user_cart", Description: shop.CartText}, handler(w.Cart))
	mcp.AddTool(s, &mcp.Tool{Name: "checkout", Description: shop.CheckoutText}, handler(w.Checkout))
	// The published server of this SDK is stateless and responds with JSON. 2026-07-28 requires a stateless server.
	options := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}
	if *sessions {
		options = nil
	}
	shop.Serve(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, options))
}

func handler[In, Out any](do func(context.Context, In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, in)
		return nil, out, err
	}
}
