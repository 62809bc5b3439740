// Command tested is a server with a test, in main_test.go, that runs on every transport of every
// revision. It also shows how to add a tool while the server runs.
//
//	go test ./examples/tested
package main

import (
	"context"
	"sync"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type note struct {
	Text string `json:"text" minLength:"1"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "tested", Version: "1.0.0"}
	var mu sync.Mutex
	var notes []string
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Add a note; the first note adds the tool last"},
		func(_ context.Context, in note) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(notes) == 0 {
				// Clients that subscribe to changes of the list of tools are notified.
				server.AddTool(s, mcp.Tool{Name: "last", Description: "Return the last note"},
					func(context.Context, struct{}) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						return notes[len(notes)-1], nil
					})
			}
			notes = append(notes, in.Text)
			return "added", nil
		})
	return s
}

func main() {
	server.Main(newServer())
}
