// Command library serves resources: a static one, a dynamic one, a template, and a directory.
//
//	parley ls -- go run ./examples/library .
//	parley read library://notes/ada/1 -- go run ./examples/library .
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type note struct {
	Author string `json:"author" enum:"ada,grace"`
	Number int    `json:"number" minimum:"1" maximum:"9"`
}

type page struct {
	Author string `json:"author"`
	Number int    `json:"number"`
}

// newServer returns a server of the files in root. Paths cannot leave root.
func newServer(root *os.Root) *server.Server {
	s := &server.Server{Name: "library", Version: "1.0.0"}
	server.AddStatic(s, mcp.Resource{URI: "library://rules", Name: "rules", MimeType: "text/plain"}, "Be quiet.")
	server.AddResource(s, mcp.Resource{URI: "library://time", Name: "time", MimeType: "text/plain"},
		func(context.Context) (string, error) { return time.Now().Format(time.RFC3339), nil })
	// A URI whose variables are invalid, such as library://notes/ada/10, does not exist.
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "library://notes/{author}/{number}", Name: "notes"},
		func(_ context.Context, in note) (page, error) {
			if in.Number > 3 {
				return page{}, call.ErrResourceNotFound
			}
			return page(in), nil
		})
	server.AddFS(s, "file:///books/", root, server.FSOptions{Description: "The books of the library"})
	return s
}

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	if err := newServer(root).Run(context.Background()); err != nil {
		log.Print(err)
	}
}
