// Package config reads configuration files that list MCP servers. It reads the files of several
// programs as they are: objects mcpServers, servers with inputs, and context_servers, and the
// projects of a file. The files are JSON, in which comments are allowed. [Schema] describes the
// form of parley's own files.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

const maxFile = 16 << 20 // bytes; some programs keep their whole state in the file

// Config is the content of one or more configuration files.
type Config struct {
	Servers  []Server  // in the order of the files
	Toolsets []Toolset // in the order of the files
	// DefaultToolset is the name of the toolset that is served without a name. Empty means everything.
	DefaultToolset string
	Problems       []Problem // entries that cannot be used
	Warnings       []string  // members that have no effect, one line each
	// Policies decide together: the strictest decision counts.
	Policies []*Policy
	Hooks    []Hook

	paths      []string
	decides    bool    // see Files.Deciding
	invalid    []error // of the policy, the hooks and unknown members
	ungoverned []error // what a file must not decide; see Check
}

// Server is one server of a file. References are not expanded; see [Server.Target].
type Server struct {
	// Name is the name of the entry, or, if it cannot be the name of a server of a host, a name
	// that is made from it.
	Name     string
	Original string // the name of the entry
	Source   string // the file and line of the entry
	Origin   string // where the entry is from, such as another file
	Disabled bool

	// Lazy means that the server starts when it is first needed.
	Lazy bool
	// Idle is how long the server is not used before it ends. 0 means that it does not end.
	Idle time.Duration
	// Revision is the only revision of the protocol to use; empty means any.
	Revision mcp.Revision
	// Trusted means that the policy may use the annotations of the server's tools.
	Trusted bool
	// Roots are directories, relative to the directory of the file. Nil means that the entry has none.
	Roots []string

	// For a program, Command is not empty.
	Command string
	Args    []string
	Env     []Pair
	EnvFile string // a file with more variables
	Dir     string // relative to the directory of the file

	// For a server at a URL, URL is not empty.
	URL     string
	Headers []Pair

	Credentials *Credentials // of the callers; nil: the operator's for all

	Prefix         *string // see host.ServerConfig, also for the following
	Sharing        host.Sharing
	InputLimits    host.InputLimits
	Extensions     []host.Extension
	MaxResult      int
	Tools, Prompts host.Selection

	foreign bool              // the file is one of another program
	folder  string            // the directory of the file
	decides bool              // the file decides; see Files.Deciding
	inputs  map[string]*Input // of the file
}

// Settings returns the configuration of the server for a host, without the target and the roots.
func (s *Server) Settings() *host.ServerConfig {
	return &host.ServerConfig{Name: s.Name, Lazy: s.Lazy, Idle: s.Idle, Trusted: s.Trusted, Revision: s.Revision, Sharing: s.Sharing, InputLimits: s.InputLimits, Extensions: s.Extensions, MaxResult: s.MaxResult, Prefix: s.Prefix, Tools: s.Tools, Prompts: s.Prompts}
}

// Pair is a name and a value.
type Pair struct{ Name, Value string }

// Problem reports an entry that cannot be used.
type Problem struct {
	Name string // of the entry
	Err  error  // begins with the file and line
}

// Load reads configuration files. A single file decides about all servers; several files do not. See [Files.Load].
func Load(workspace string, paths ...string) (*Config, error) {
	return (&Files{Workspace: workspace, Paths: paths}).Load()
}

// Toolset returns the toolset with a name, or nil.
func (c *Config) Toolset(name string) *Toolset {
	for i := range c.Toolsets {
		if c.Toolsets[i].Name == name {
			return &c.Toolsets[i]
		}
	}
	return nil
}

// Parse reads the content of the file at path; see [Load]. Errors begin with the path and line.
func Parse(workspace, path string, data []byte) (*Config, error) {
	f := &Files{Workspace: workspace}
	c, err := parseFile(f, path, data)
	if err != nil {
		return nil, err
	}
	all := &Config{paths: []string{path}}
	c.decides = true
	all.merge([]*Config{c})
	return all, errors.Join(all.invalid...)
}

// byteOrderMark is what some editors write at the beginning of a file.
const byteOrderMark = "\ufeff"

func parseFile(f *Files, path string, data []byte) (*Config, error) {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	root, err := hujson.Parse(data)
	if err != nil && len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: file is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.NewReplacer("hujson: ", "", io.ErrUnexpectedEOF.Error(), "unexpected end of file").Replace(err.Error()))
	}
	d := &document{path: path, data: data, workspace: f.Workspace, foreign: f.Foreign, config: &Config{paths: []string{path}}}
	if err := d.read(&root); err != nil {
		return nil, err
	}
	return d.config, nil
}

// Find returns the server with a name, or with the name of an entry. If there is none, the error
// lists the names that exist.
func (c *Config) Find(name string) (*Server, error) {
	var names []string
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Name == name || s.Original == name {
			return s, nil
		}
		names = append(names, c.Servers[i].Name)
	}
	for _, p := range c.Problems {
		if p.Name == name {
			return nil, p.Err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no servers; add servers to \"mcpServers\"", c.Path())
	}
	return nil, fmt.Errorf("%s has no server %q; its servers are %s", c.Path(), name, strings.Join(names, ", "))
}

// Path returns the paths of the files, for messages.
func (c *Config) Path() string { return strings.Join(c.paths, ", ") }
