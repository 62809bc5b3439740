// Command skills is a server with a skill: instructions for an agent, in files that the program embeds.
//
//	parley skills ls -- go run ./examples/skills
//	parley skills get release-notes -- go run ./examples/skills
package main

import (
	"embed"
	"io/fs"
	"log"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

//go:embed skills
var files embed.FS

func newServer() (*server.Server, error) {
	s := &server.Server{Name: "skills", Version: "1.0.0"}
	dir, err := fs.Sub(files, "skills")
	if err != nil {
		return nil, err
	}
	_, err = skills.Add(s, dir, skills.Options{})
	return s, err
}

func main() {
	s, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	server.Main(s)
}
