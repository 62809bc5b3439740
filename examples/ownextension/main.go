// Command ownextension is a server with an extension of the protocol, which package search defines outside of Parley.
// Its test is a client that uses the extension.
//
//	go -C examples/ownextension run . -http 127.0.0.1:8080
package main

import (
	"context"

	"example.com/ownextension/search"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

var notes = []string{"file:///notes/milk.txt", "file:///notes/mill.txt", "file:///tmp/milk.txt"}

func newServer() *server.Server {
	s := &server.Server{Name: "ownextension", Version: "1.0.0", Middleware: []call.Middleware{search.Middleware}}
	search.Add(s, notes) // before the resources that it requires, because the order does not matter
	for _, uri := range notes {
		server.AddResource(s, mcp.Resource{URI: uri, Name: uri},
			func(context.Context) (string, error) { return "a note", nil })
	}
	return s
}

func main() {
	server.Main(newServer())
}
