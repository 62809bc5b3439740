// Command tested is a server whose test, in main_test.go, runs on every transport of
// every revision. It also shows tools that come and go while it serves.
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
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Keep a note; the first makes the tool last appear"},
		func(_ context.Context, in note) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(notes) == 0 {
				// Clients that watch the list of tools are told.
				server.AddTool(s, mcp.Tool{Name: "last", Description: "Tell the last note"},
					func(context.Context, struct{}) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						return notes[len(notes)-1], nil
					})
			}
			notes = append(notes, in.Text)
			return "kept", nil
		})
	return s
}

func main() {
	server.Main(newServer())
}
