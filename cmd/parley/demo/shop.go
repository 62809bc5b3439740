package demo

import (
	"context"
	"sync"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// shop adds and removes the tool buy for all clients.
type shop struct {
	server *server.Server

	mu   sync.Mutex
	open bool
}

func addShop(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "shop", Title: "Shop", Description: "Open or close a shop, which adds or removes the tool buy", Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}},
		(&shop{server: s}).set)
}

// set opens or closes the shop. Subscribers are notified of the changed list.
func (s *shop) set(_ context.Context, in struct {
	Open bool `json:"open" doc:"true to open the shop, false to close it"`
}) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == in.Open {
		return "The shop is unchanged.", nil
	}
	s.open = in.Open
	if !in.Open {
		s.server.RemoveTool("buy")
		return "The shop is closed.", nil
	}
	server.AddTool(s.server, mcp.Tool{Name: "buy", Title: "Buy", Description: "Buy something in the shop, free of charge", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, buy)
	return "The shop is open. The tool buy is available.", nil
}

func buy(_ context.Context, in struct {
	Thing string `json:"thing" enum:"apples,bread,cheese"`
}) (string, error) {
	return "You have bought " + in.Thing + ". This is a demo; nothing was charged.", nil
}
