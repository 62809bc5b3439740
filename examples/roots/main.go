// Command roots is a server with a tool that asks the client for directories (roots). 2026-07-28
// deprecates roots; new tools take a directory as an argument.
//
//	parley call count --root . -- go run ./examples/roots
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type found struct {
	Files map[string]int `json:"files" doc:"number of files, by the name of the root"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "roots", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count the files in each root of the client"}, count)
	return s
}

func count(ctx context.Context, _ struct{}) (found, error) {
	roots, err := server.Roots(ctx)
	if err != nil {
		return found{}, err
	}
	out := found{Files: make(map[string]int)}
	for _, root := range roots {
		uri, err := url.Parse(root.URI)
		if err != nil || uri.Scheme != "file" {
			return found{}, fmt.Errorf("root %q must be a directory on this machine", root.Name)
		}
		entries, err := os.ReadDir(filepath.FromSlash(uri.Path))
		if err != nil {
			return found{}, err
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() {
				out.Files[root.Name]++
			}
		}
	}
	return out, nil
}

func main() {
	server.Main(newServer())
}
