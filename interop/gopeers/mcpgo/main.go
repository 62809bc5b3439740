// Command mcpgo is a server made with github.com/mark3labs/mcp-go, over stdio.
package main

import (
	"context"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func echo(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := request.RequireString("text")
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(text), nil
}

func main() {
	log.SetFlags(0)
	s := server.NewMCPServer("mcpgo", "1.0.0")
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Returns the text."), mcp.WithString("text", mcp.Required())),
		echo)
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
