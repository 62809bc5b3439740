// Package config reads configuration files that list MCP servers. It reads the files of several programs as they are:
// objects mcpServers, servers with inputs, context_servers and mcp, the tables mcp_servers, and the projects of a file.
// The files are JSON, in which comments are allowed, or TOML. [Schema] describes the form of parley's own files.
package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/glob"
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
	// Name is the name of the entry, or, if it cannot be the name of a server of a host, a name that is made from it.
	Name     string
	Original string // the name of the entry
	Source   string // the file and line of the entry
	Origin   string // where the entry is from, such as another file
	Disabled bool

	// Lazy means that the server starts when it is first needed.
	Lazy bool
	// Idle is how long the server is not used before it ends. 0 means that it does not end.
	Idle time.Duration
	// StartTimeout limits the time until the lists of the server are known. 0 means the default of a host.
	StartTimeout time.Duration
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
	// Confine restricts the program. Its paths are relative to the directory of the file, or begin with ~. Nil means
	// that the program has the rights of parley.
	Confine *confine.Rules

	// For a server at a URL, URL is not empty.
	URL     string
	Headers []Pair

	Credentials   *Credentials      // of the callers; nil: the operator's for all
	CallerHeaders map[string]string // see host.ServerConfig
	LoginSettings

	Prefix         *string // see host.ServerConfig, also for the following
	Sharing        host.Sharing
	MaxResult      int
	Tools, Prompts host.Selection

	InputLimits host.InputLimits
	Extensions  []host.Extension

	foreign bool              // the file is one of another program
	folder  string            // the directory of the file
	decides bool              // the file decides; see Files.Deciding
	inputs  map[string]*Input // of the file
}

// Settings returns the configuration of the server for a host, without the target and the roots.
func (s *Server) Settings() *host.ServerConfig {
	c := &host.ServerConfig{Name: s.Name, Lazy: s.Lazy, Idle: s.Idle, StartTimeout: s.StartTimeout,
		Trusted: s.Trusted, Revision: s.Revision, Sharing: s.Sharing, MaxResult: s.MaxResult,
		CallerHeaders: s.CallerHeaders, Tools: s.Tools, Prompts: s.Prompts, InputLimits: s.InputLimits,
		Extensions: s.Extensions}
	if s.Prefix != nil {
		c.Prefix, c.NoPrefix = *s.Prefix, *s.Prefix == ""
	}
	return c
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
	parse := hujson.Parse
	if isTOML(path) {
		parse = jsonedit.ParseTOML
	}
	root, err := parse(data)
	if err != nil && len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: file is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path,
			strings.NewReplacer("hujson: ", "", "toml: ", "", io.ErrUnexpectedEOF.Error(),
				"unexpected end of file").Replace(err.Error()))
	}
	d := &document{path: path, data: data, workspace: f.Workspace, foreign: f.Foreign,
		config: &Config{paths: []string{path}}}
	if err := d.read(&root); err != nil {
		return nil, err
	}
	return d.config, nil
}

func isTOML(path string) bool { return strings.HasSuffix(path, ".toml") }

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

// for schema.json

// SchemaURI identifies the JSON Schema of parley's own configuration files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/" +
	"internal/servers/config/schema.json"

// Schema is the JSON Schema of parley's own configuration files.
//
//go:embed schema.json
var Schema []byte

// Files are configuration files. Their order decides nothing.
type Files struct {
	// Workspace is a directory. Of the projects in a file, Load reads the one that contains it.
	Workspace string
	// Paths are the paths of the files. A file with two paths is read once.
	Paths []string
	// Deciding are the paths of the files whose policy, webhooks and toolsets are for the servers of all files, such as
	// the user's own. A policy and webhooks of another file are for its own servers only. A single file decides.
	Deciding []string
	// Foreign means that all files belong to other programs, wherever they are.
	Foreign bool
}

// Load reads the files. If two files have different servers of one name, that of the deciding file is used, or none. If
// only the policy, a hook or an unknown member cannot be used, Load returns the other content with the error.
func (f *Files) Load() (*Config, error) {
	all := new(Config)
	for _, path := range f.Paths {
		if !slices.ContainsFunc(all.paths, func(other string) bool { return samePath(other, path) }) {
			all.paths = append(all.paths, path)
		}
	}
	var files []*Config
	for _, path := range all.paths {
		data, err := atomicfile.Read(path, maxFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration file: %w", err)
		}
		one, err := parseFile(f, path, data)
		if err != nil {
			return nil, err
		}
		one.decides = len(all.paths) == 1 ||
			slices.ContainsFunc(f.Deciding, func(deciding string) bool { return samePath(deciding, path) })
		files = append(files, one)
	}
	all.merge(files)
	return all, errors.Join(all.invalid...)
}

func samePath(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// merge sets the content of c to the merged content of files.
func (c *Config) merge(files []*Config) {
	for _, f := range files {
		for i := range f.Servers {
			f.Servers[i].decides = f.decides
		}
		c.Servers = append(c.Servers, f.Servers...)
		c.Problems = append(c.Problems, f.Problems...)
		c.Warnings = append(c.Warnings, f.Warnings...)
		c.invalid = append(c.invalid, f.invalid...)
	}
	c.separate()
	for _, f := range files {
		c.govern(f, files)
	}
	for i := range c.Toolsets {
		c.Toolsets[i].resolve(c.Servers)
	}
}

// govern adds the policy, the webhooks and the toolsets of a file. What a file must not decide is in c.ungoverned.
func (c *Config) govern(f *Config, files []*Config) {
	fail := func(source, format string, args ...any) {
		c.ungoverned = append(c.ungoverned, fmt.Errorf("%s: %s", source, fmt.Sprintf(format, args...)))
	}
	for _, t := range f.Toolsets {
		same := c.Toolset(t.Name)
		switch {
		case !f.decides:
			fail(t.Source, "toolset %q is for the servers of all files; name its file with --policy", t.Name)
			continue
		case same != nil:
			fail(t.Source, "toolset %q is in two files, also at %s; rename one of them", t.Name, same.Source)
			continue
		}
		c.Toolsets = append(c.Toolsets, t)
	}
	switch {
	case f.DefaultToolset == "":
	case !f.decides:
		fail(f.Path(), "defaultToolset is for the servers of all files; name its file with --policy")
	case c.DefaultToolset != "" && c.DefaultToolset != f.DefaultToolset:
		fail(f.Path(), "another file has the defaultToolset %q; remove one of them", c.DefaultToolset)
	default:
		c.DefaultToolset = f.DefaultToolset
	}
	source, what := "", ""
	var others, shared []string // servers of other files only, and of others and this one
	for i := range f.Hooks {
		source, what = f.Hooks[i].Source, "webhook"
	}
	for _, p := range f.Policies {
		source, what = p.Source, "policy"
	}
	if !f.decides && what != "" {
		others, shared = f.othersOf(c)
		switch {
		case len(f.Servers)+len(f.Problems) == 0:
			fail(source,
				"the %s is for no server, because its file has none; name the file with --policy to use it for the "+
					"servers of all files", what)
		case len(others) > 0 && !slices.ContainsFunc(files, func(other *Config) bool { return other.decides }):
			fail(source,
				"the %s is for the servers of its own file only, and not for %q; name the file that decides about "+
					"all servers with --policy", what, others)
		}
	}
	for i := range f.Policies {
		f.Policies[i].Except = others
	}
	for i := range f.Hooks { // the webhook of one file does not receive what a server of another file does
		f.Hooks[i].Except = slices.Concat(others, shared)
	}
	c.Policies = append(c.Policies, f.Policies...)
	c.Hooks = append(c.Hooks, f.Hooks...)
}

// othersOf returns the names, as they are written, of the servers of all that are not of the file. Shared are those
// that the file has, too, but another file has them first.
func (c *Config) othersOf(all *Config) (others, shared []string) {
	for i := range all.Servers {
		s := &all.Servers[i]
		switch at := slices.IndexFunc(c.Servers,
			func(own Server) bool { return own.Original == s.Original && Same(&own, s) }); {
		case at < 0:
			others = append(others, s.Original)
		case c.Servers[at].Source != s.Source:
			shared = append(shared, s.Original)
		}
	}
	return others, shared
}

// Check returns an error if a file must not decide what it decides, or if a rule, webhook or toolset names a server,
// method or toolset that does not exist: it would have no effect.
func (c *Config) Check() error {
	errs := slices.Clone(c.ungoverned)
	fail := func(source, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", source, fmt.Sprintf(format, args...)))
	}
	if c.DefaultToolset != "" && c.Toolset(c.DefaultToolset) == nil {
		at := slices.IndexFunc(c.Problems,
			func(p Problem) bool { return p.Name == fmt.Sprintf("toolset %q", c.DefaultToolset) })
		if at >= 0 {
			errs = append(errs, c.Problems[at].Err)
		} else {
			fail(c.Path(), "defaultToolset %q is not one of the toolsets", c.DefaultToolset)
		}
	}
	if len(c.Servers)+len(c.Problems) == 0 { // a file that is used with others
		return errors.Join(errs...)
	}
	server := func(source, what, pattern string, except []string) {
		names := c.names(except)
		if pattern != "" && !slices.ContainsFunc(names, func(name string) bool { return glob.Match(pattern, name) }) {
			fail(source, "%s: no server has the name %q%s", what, pattern, suggestion(pattern, names))
		}
	}
	methods := c.methods()
	for _, p := range c.Policies {
		for i := range p.Rules {
			rule, what := &p.Rules[i], fmt.Sprintf("policy.rules[%d]", i)
			server(rule.Source, what+".server", rule.Server, p.Except)
			if rule.Method != "" && !slices.ContainsFunc(methods,
				func(method string) bool { return glob.Match(rule.Method, method) }) {
				fail(rule.Source, "%s.method: no request has the method %q%s", what, rule.Method,
					suggestion(rule.Method, methods))
			}
		}
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		server(h.Source, "webhook", h.Server, h.Except)
	}
	for _, t := range c.Toolsets {
		what := fmt.Sprintf("toolset %q", t.Name)
		for _, pattern := range t.Servers {
			server(t.Source, what, pattern, nil)
		}
		for _, pattern := range slices.Concat(t.Tools, t.Prompts, t.Hide) {
			if !c.prefixes(pattern) {
				fail(t.Source,
					"%s: no server has names that match %q; the names of a server begin with its prefix and two "+
						"underscores", what, pattern)
			}
		}
	}
	return errors.Join(errs...)
}

// suggestion returns the end of an error about a name that does not exist.
func suggestion(name string, names []string) string {
	if near := terminal.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; correct or remove it"
}

// names returns the names of the servers as they are written, including servers that cannot be used.
func (c *Config) names(except []string) (names []string) {
	for i := range c.Servers {
		names = append(names, c.Servers[i].Original)
	}
	for _, p := range c.Problems {
		names = append(names, p.Name)
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(except, name) })
}

// methods returns the methods of the requests that a policy decides about.
func (c *Config) methods() []string {
	methods := []string{
		mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource, mcp.MethodComplete, mcp.MethodSubscribe,
		mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodListRoots,
	}
	for i := range c.Servers {
		for _, e := range c.Servers[i].Extensions {
			methods = append(append(methods, e.Requests...), e.Notifications...)
		}
	}
	return methods
}

// prefixes reports whether a pattern of names in the merged lists may match names of a server.
func (c *Config) prefixes(pattern string) bool {
	prefix, _, found := strings.Cut(pattern, "__")
	if !found || len(c.Problems) > 0 {
		return true
	}
	return slices.ContainsFunc(c.Servers, func(s Server) bool {
		own := s.Name
		if s.Prefix != nil {
			own = *s.Prefix
		}
		return own == "" || glob.Match(prefix, own) || strings.ContainsAny(prefix, "*?")
	})
}
