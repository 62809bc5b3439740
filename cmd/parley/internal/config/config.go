// Package config reads configuration files that list MCP servers. The format is the one that
// other MCP programs use: a JSON object, in which comments are allowed, whose member
// mcpServers has one member for each server.
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
	"github.com/parley-mcp/parley/transport"
)

const maxFile = 4 << 20 // bytes

// File is the content of a configuration file.
type File struct {
	Path     string
	Servers  []Server // in the order of the file
	Warnings []string // members that have no effect, one line each
}

// Server is one server of the file. References to the environment are not expanded.
type Server struct {
	Name     string
	Disabled bool

	// For a program, Command is not empty.
	Command string
	Args    []string
	Env     []Pair
	Dir     string // relative to the directory of the file

	// For a server at a URL, URL is not empty.
	URL     string
	Headers []Pair

	folder string // the directory of the file
}

// Pair is a name and a value.
type Pair struct{ Name, Value string }

// Load reads the configuration file at path.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration file: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("configuration file %s is too large: %d bytes, the limit is %d", path, len(data), maxFile)
	}
	return Parse(path, data)
}

// Parse reads the content of the file at path. Errors begin with the path and line.
func Parse(path string, data []byte) (*File, error) {
	root, err := hujson.Parse(data)
	if err != nil && len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: file is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.NewReplacer("hujson: ", "", io.ErrUnexpectedEOF.Error(), "unexpected end of file").Replace(err.Error()))
	}
	d := &document{path: path, data: data, file: &File{Path: path}}
	if err := d.read(&root); err != nil {
		return nil, err
	}
	return d.file, nil
}

// Find returns the server called name. If there is none, the error lists the names that
// exist.
func (f *File) Find(name string) (*Server, error) {
	var names []string
	for i := range f.Servers {
		if f.Servers[i].Name == name {
			return &f.Servers[i], nil
		}
		names = append(names, f.Servers[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no servers; add servers to \"mcpServers\"", f.Path)
	}
	return nil, fmt.Errorf("%s has no server %q; its servers are %s", f.Path, name, strings.Join(names, ", "))
}

// Target returns the target to dial. It replaces references to the environment by the values
// that lookup returns.
func (s *Server) Target(lookup func(name string) (string, bool)) (client.Target, error) {
	var firstErr error
	expanded := func(where, text string) string {
		value, err := Expand(text, lookup)
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("%s: %w", where, err)
		}
		return value
	}
	var target client.Target
	if s.URL != "" {
		header := make(http.Header, len(s.Headers))
		for _, h := range s.Headers {
			header.Add(h.Name, expanded("header "+h.Name, h.Value))
		}
		target = &client.HTTPTarget{URL: expanded("url", s.URL), Header: header}
	} else {
		options := transport.CommandOptions{Path: expanded("command", s.Command)}
		for _, arg := range s.Args {
			options.Args = append(options.Args, expanded("args", arg))
		}
		for _, e := range s.Env {
			options.Env = append(options.Env, e.Name+"="+expanded("env "+e.Name, e.Value))
		}
		if s.Dir != "" {
			if options.Dir = expanded("cwd", s.Dir); !filepath.IsAbs(options.Dir) {
				options.Dir = filepath.Join(s.folder, options.Dir)
			}
		}
		target = &client.CommandTarget{CommandOptions: options}
	}
	if firstErr != nil {
		return nil, firstErr
	}
	return target, nil
}

// check validates the combination of members. kind is the value of "type".
func (s *Server) check(kind string) error {
	switch {
	case s.Command == "" && s.URL == "":
		return errors.New("must have a command or a url")
	case s.Command != "" && s.URL != "":
		return errors.New("must not have both a command and a url")
	}
	switch kind {
	case "":
	case "stdio":
		if s.Command == "" {
			return errors.New(`type "stdio" requires a command`)
		}
	case "http", "sse", "streamable-http", "streamableHttp":
		if s.URL == "" {
			return fmt.Errorf("type %q requires a url", kind)
		}
	default:
		return fmt.Errorf("unknown type %q; use stdio or http", kind)
	}
	return nil
}
