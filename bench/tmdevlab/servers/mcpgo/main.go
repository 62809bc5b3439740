// Command mcpgo serves the tools with mcp-go. It validates, as the other servers do, which is optional in mcp-go.
package main

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/parley-mcp/parley/bench/tmdevlab/shop"
)

func main() {
	w, _ := shop.Parse("mcpgo")
	s := server.NewMCPServer("shop", "1.0.0", server.WithToolCapabilities(true),
		server.WithInputSchemaValidation(), server.WithOutputSchemaValidation())
	add(s, "search_products", shop.SearchText, w.Search)
	add(s, "get_user_cart", shop.CartText, w.Cart)
	add(s, "checkout", shop.CheckoutText, w.Checkout)
	shop.Serve(server.NewStreamableHTTPServer(s))
}

func add[In, Out any](s *server.MCPServer, name, text string, do func(context.Context, In) (Out, error)) {
	s.AddTool(mcp.NewTool(name, mcp.WithDescription(text), mcp.WithInputSchema[In](), mcp.WithOutputSchema[Out]()),
		mcp.NewStructuredToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, in In) (Out, error) {
			return do(ctx, in)
		}))
}
