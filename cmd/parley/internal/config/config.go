// Package config reads files that list MCP servers, as other MCP programs do: a
// JSON object with comments whose member mcpServers has one member for each server.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/transport"
)

// maxFile bounds a file, in bytes.
const maxFile = 4 << 20

// File is what a file says.
type File struct {
	Path     string
	Servers  []Server // in the order of the file
	Warnings []string // what is in it and has no effect, one line each
}

// Server is one server, as it is written.
type Server struct {
	Name     string
	Disabled bool

	// A program: Command is not empty.
	Command string
	Args    []string
	Env     []Pair
	Dir     string // relative to the file's folder

	// A URL.
	URL     string
	Headers []Pair

	folder string // of the file
}

// Pair is a name with a value.
type Pair struct{ Name, Value string }

// Load reads a file.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("config file %s does not exist", path)
	case err != nil:
		return nil, fmt.Errorf("config file: %w", err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("config file %s is larger than %d bytes", path, maxFile)
	}
	return Parse(path, data)
}

// Parse reads what a file at path contains. Errors begin with the place.
func Parse(path string, data []byte) (*File, error) {
	root, err := hujson.Parse(data)
	if err != nil && len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: the file is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.NewReplacer("hujson: ", "", io.ErrUnexpectedEOF.Error(), "the file ends too early").Replace(err.Error()))
	}
	d := &document{path: path, data: data, file: &File{Path: path}}
	if err := d.read(&root); err != nil {
		return nil, err
	}
	return d.file, nil
}

// Find returns the server of a name, or an error that says which there are.
func (f *File) Find(name string) (*Server, error) {
	var names []string
	for i := range f.Servers {
		if f.Servers[i].Name == name {
			return &f.Servers[i], nil
		}
		names = append(names, f.Servers[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s names no servers: add some to its \"mcpServers\"", f.Path)
	}
	return nil, fmt.Errorf("%s has no server %q, only %s", f.Path, name, strings.Join(names, ", "))
}

// Target returns what to dial, with references to the environment replaced by what
// lookup has for them.
func (s *Server) Target(lookup func(name string) (string, bool)) (client.Target, error) {
	var first error
	set := func(where, text string) string {
		value, err := expand(text, lookup)
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", where, err)
		}
		return value
	}
	var target client.Target
	if s.URL != "" {
		header := make(http.Header, len(s.Headers))
		for _, h := range s.Headers {
			header.Add(h.Name, set("header "+h.Name, h.Value))
		}
		target = &client.HTTP{URL: set("url", s.URL), Header: header}
	} else {
		options := transport.CommandOptions{Path: set("command", s.Command)}
		for _, arg := range s.Args {
			options.Args = append(options.Args, set("args", arg))
		}
		for _, e := range s.Env {
			options.Env = append(options.Env, e.Name+"="+set("env "+e.Name, e.Value))
		}
		if s.Dir != "" {
			if options.Dir = set("cwd", s.Dir); !filepath.IsAbs(options.Dir) {
				options.Dir = filepath.Join(s.folder, options.Dir)
			}
		}
		target = &client.Process{CommandOptions: options}
	}
	if first != nil {
		return nil, first
	}
	return target, nil
}

// check returns what is wrong with a server as a whole.
func (s *Server) check(kind string) error {
	if err := host.CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case s.Command == "" && s.URL == "":
		return errors.New("add a command to run, or a url")
	case s.Command != "" && s.URL != "":
		return errors.New("a server has a command or a url, not both")
	}
	switch kind {
	case "":
	case "stdio":
		if s.Command == "" {
			return errors.New(`type "stdio" needs a command`)
		}
	case "http", "sse", "streamable-http", "streamableHttp":
		if s.URL == "" {
			return fmt.Errorf("type %q needs a url", kind)
		}
	default:
		return fmt.Errorf("unknown type %q: use stdio or http", kind)
	}
	return nil
}
