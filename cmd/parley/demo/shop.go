package demo

import (
	"context"
	"sync"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// shop is a tool that comes and goes, for everybody.
type shop struct {
	server *server.Server

	mu   sync.Mutex
	open bool
}

func addShop(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "shop", Title: "Shop", Description: "Open or close a shop: while it is open there is another tool, buy", Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}},
		(&shop{server: s}).set)
}

// set opens or closes the shop, of which clients that watch are told.
func (s *shop) set(_ context.Context, in struct {
	Open bool `json:"open"`
}) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == in.Open {
		return "Nothing has changed.", nil
	}
	s.open = in.Open
	if !in.Open {
		s.server.RemoveTool("buy")
		return "The shop is closed.", nil
	}
	server.AddTool(s.server, mcp.Tool{Name: "buy", Title: "Buy", Description: "Buy something in the shop, for no money at all", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, buy)
	return "The shop is open: there is a tool now to buy with.", nil
}

func buy(_ context.Context, in struct {
	Thing string `json:"thing" enum:"apples,bread,cheese"`
}) (string, error) {
	return "Here you are: " + in.Thing + ". It is all made up.", nil
}
