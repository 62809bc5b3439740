// Package editors knows where editors and other clients keep their configuration files, and how their entries for MCP
// servers look.
package editors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
)

// Place says where files are looked for.
type Place struct {
	OS        string // as runtime.GOOS
	Home      string
	Workspace string // the directory of the project
	Getenv    func(name string) string
}

// Here returns the place of the user who runs the program.
func Here() (*Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	workspace, err := os.Getwd()
	return &Place{OS: runtime.GOOS, Home: home, Workspace: workspace, Getenv: os.Getenv}, err
}

// join joins the elements of a path with the separator of the operating system.
func (p *Place) join(elements ...string) string {
	separator := "/"
	if p.OS == "windows" {
		separator = `\`
	}
	return strings.Join(elements, separator)
}

// config returns the directory of the user's configuration: on Linux and other systems, as the XDG specification says.
func (p *Place) config() string {
	switch p.OS {
	case "windows":
		if dir := p.Getenv("APPDATA"); dir != "" {
			return dir
		}
		return p.join(p.Home, "AppData", "Roaming")
	case "darwin":
		return p.join(p.Home, "Library", "Application Support")
	}
	return p.xdg()
}

func (p *Place) xdg() string {
	if dir := p.Getenv("XDG_CONFIG_HOME"); strings.HasPrefix(dir, "/") {
		return dir
	}
	return p.join(p.Home, ".config")
}

// Client is a program that reads a configuration file.
type Client struct {
	Name    string // for the command line
	Title   string
	member  string // that has the servers
	user    func(p *Place) string
	project []string // the path in a project; nil if there is none
	http    string   // the member with the URL of a server; empty if the client starts programs only
	typed   bool     // an entry has a type
	dir     bool     // an entry can have cwd
	envFile bool     // an entry can have envFile
	inputs  bool     // the file can have inputs
	// style changes an entry of mcpServers to the form of the client. It may be nil.
	style func(config.Object) config.Object
	// reference returns a reference in the notation of the client, or false if it has none.
	reference func(r config.Reference) (string, bool)
	dollars   bool // $NAME without braces is a reference, too
}

// Clients returns all clients that are known.
func Clients() []*Client {
	return []*Client{
		{
			Name: "claude", Title: "Claude Desktop", member: "mcpServers",
			user:      func(p *Place) string { return p.join(p.config(), "Claude", "claude_desktop_config.json") },
			reference: func(config.Reference) (string, bool) { return "", false },
		},
		{
			Name: "claude-code", Title: "Claude Code", member: "mcpServers", http: "url", typed: true,
			user: func(p *Place) string {
				if dir := p.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
					return p.join(dir, ".claude.json")
				}
				return p.join(p.Home, ".claude.json")
			},
			project:   []string{".mcp.json"},
			reference: shellVariable,
		},
		{
			Name: "cursor", Title: "Cursor", member: "mcpServers", http: "url", envFile: true,
			user:      func(p *Place) string { return p.join(p.Home, ".cursor", "mcp.json") },
			project:   []string{".cursor", "mcp.json"},
			reference: editorVariable,
		},
		{
			Name: "vscode", Title: "VS Code", member: "servers", http: "url", typed: true, dir: true, envFile: true,
			inputs:    true,
			user:      func(p *Place) string { return p.join(p.config(), "Code", "User", "mcp.json") },
			project:   []string{".vscode", "mcp.json"},
			reference: editorVariable,
		},
		{
			Name: "windsurf", Title: "Windsurf", member: "mcpServers", http: "serverUrl",
			user:      func(p *Place) string { return p.join(p.Home, ".codeium", "windsurf", "mcp_config.json") },
			reference: qualifiedVariable,
		},
		{
			Name: "zed", Title: "Zed", member: "context_servers", http: "url",
			user: func(p *Place) string {
				if p.OS == "windows" {
					return p.join(p.config(), "Zed", "settings.json")
				}
				return p.join(p.xdg(), "zed", "settings.json") // also on macOS
			},
			project:   []string{".zed", "settings.json"},
			reference: func(config.Reference) (string, bool) { return "", false },
		},
		{
			Name: "gemini", Title: "Gemini CLI", member: "mcpServers", http: "httpUrl", dir: true, dollars: true,
			user:      func(p *Place) string { return p.join(p.Home, ".gemini", "settings.json") },
			project:   []string{".gemini", "settings.json"},
			reference: plainVariable,
		},
		{
			Name: "codex", Title: "Codex", member: "mcp_servers", http: "url", dir: true, style: codexEntry,
			user: func(p *Place) string {
				if dir := p.Getenv("CODEX_HOME"); dir != "" {
					return p.join(dir, "config.toml")
				}
				return p.join(p.Home, ".codex", "config.toml")
			},
			project:   []string{".codex", "config.toml"},
			reference: func(config.Reference) (string, bool) { return "", false },
		},
		{
			Name: "opencode", Title: "opencode", member: "mcp", http: "url", style: opencodeEntry,
			user: func(p *Place) string {
				if file := p.Getenv("OPENCODE_CONFIG"); file != "" {
					return file
				}
				return existing(p.join(p.xdg(), "opencode", "opencode.json"))
			},
			project:   []string{"opencode.json"},
			reference: opencodeVariable,
		},
	}
}

// existing returns the path of a file or, if only the file with comments exists, of that.
func existing(path string) string {
	if _, err := os.Stat(path); err != nil {
		if _, err := os.Stat(path + "c"); err == nil {
			return path + "c"
		}
	}
	return path
}

// Names returns the names of all clients.
func Names() (names []string) {
	for _, c := range Clients() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the client with a name, or nil.
func Find(name string) *Client {
	for _, c := range Clients() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// UserFile returns the path of the user's file. It need not exist.
func (c *Client) UserFile(p *Place) string { return c.user(p) }

// ProjectFile returns the path of the file of the project, or "" if the client has none. It need not exist.
func (c *Client) ProjectFile(p *Place) string {
	if c.project == nil {
		return ""
	}
	return existing(p.join(append([]string{p.Workspace}, c.project...)...))
}

// Files returns the paths of the files that the client reads: the user's, then the project's.
func (c *Client) Files(p *Place) []string {
	files := []string{c.UserFile(p)}
	if project := c.ProjectFile(p); project != "" {
		files = append(files, project)
	}
	return files
}

// Source is a file whose servers can be imported.
type Source struct {
	Path    string
	Title   string // of the client; empty if it is not known
	Project bool   // the file was found in the directory of a project, so that anyone may have written it
}

// Origin describes the source, for the entries of its servers.
func (s Source) Origin() string {
	if s.Title == "" {
		return s.Path
	}
	return s.Title + " (" + s.Path + ")"
}

// Sources returns the files that exist of some clients.
func Sources(p *Place, clients []*Client) (sources []Source) {
	for _, c := range clients {
		for _, path := range c.Files(p) {
			if _, err := os.Stat(path); err == nil {
				sources = append(sources, Source{path, c.Title, path == c.ProjectFile(p)})
			}
		}
	}
	return sources
}

// Import is a server of a source.
type Import struct {
	Server *config.Server // nil if the entry cannot be used
	Name   string
	Source Source
	// Same is where the user's configuration or an earlier source has the same server.
	Same string
	// Taken is where the user's configuration or an earlier source has another server of the name.
	Taken string
	Err   error // why the entry cannot be used
}

// Plan reads the sources, and compares their servers with those of the user's configuration. It returns the errors of
// sources that cannot be read joined; the other sources are in the plan.
func Plan(own *config.Config, workspace string, sources []Source) (plan []*Import, err error) {
	known := make(map[string]*config.Server)
	where := make(map[string]string)
	for i := range own.Servers {
		s := &own.Servers[i]
		known[s.Name], where[s.Name] = s, s.Source
	}
	var errs []error
	for _, source := range sources {
		c, err := (&config.Files{Workspace: workspace, Paths: []string{source.Path}, Foreign: true}).Load()
		if c == nil {
			if !errors.Is(err, config.ErrNoServers) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		for _, problem := range c.Problems {
			plan = append(plan, &Import{Name: problem.Name, Source: source, Err: problem.Err})
		}
		for i := range c.Servers {
			s := &c.Servers[i]
			imported := &Import{Server: s, Name: s.Name, Source: source}
			if imported.Err = s.Detach(); imported.Err == nil && s.Credentials != nil {
				imported.Err = fmt.Errorf("%s: server %q has credentials; copy the entry by hand", s.Source, s.Name)
			}
			if reference := s.OwnReference(); reference != "" && imported.Err == nil {
				imported.Err = fmt.Errorf("%s: server %q has the reference %s, which parley does not resolve for "+
					"other programs; add the server with parley add", s.Source, s.Name, reference)
			}
			if other := known[s.Name]; other != nil && imported.Err == nil {
				if config.Same(s, other) {
					imported.Same = where[s.Name]
				} else {
					imported.Taken = where[s.Name]
				}
			} else if imported.Err == nil {
				known[s.Name], where[s.Name] = s, s.Source
			}
			s.Origin = source.Origin()
			plan = append(plan, imported)
		}
	}
	return plan, errors.Join(errs...)
}

// unsupported returns the error about what a client cannot do itself.
func (c *Client) unsupported(what string) error { return errors.New(c.Title + " " + what) }

// translate returns text with references in the notation of the client.
func (c *Client) translate(text string) (string, error) {
	return config.ReplaceReferences(text, func(text string) error {
		if name := dollar.FindString(text); c.dollars && name != "" {
			return c.unsupported("takes " + name + "… for a variable")
		}
		return nil
	}, func(source string, r config.Reference) (string, error) {
		translated, ok := c.reference(r)
		if !ok || r.Kind == "input" && !c.inputs {
			return "", c.unsupported("does not support the reference " + source)
		}
		return translated, nil
	})
}

var dollar = regexp.MustCompile(`\$[A-Za-z_]`)

// Entry returns the entry with which the client itself starts or connects to a server. It returns an error that begins
// with the title of the client if that is not possible.
func (c *Client) Entry(s *config.Server) (config.Object, error) {
	var first error
	text := func(text string) string {
		translated, err := c.translate(text)
		if first == nil {
			first = err
		}
		return translated
	}
	pairs := func(from []config.Pair) (to []config.Pair) {
		for _, p := range from {
			to = append(to, config.Pair{Name: p.Name, Value: text(p.Value)})
		}
		return to
	}
	if s.URL != "" {
		if c.http == "" {
			return nil, c.unsupported("does not connect to URLs of its configuration file")
		}
		e := append(c.begin("http"), config.Member{Name: c.http, Value: text(s.URL)})
		if len(s.Headers) > 0 {
			e = append(e, config.Member{Name: "headers", Value: config.Strings(pairs(s.Headers))})
		}
		return c.styled(e), first
	}
	switch {
	case s.Confine != nil:
		return nil, c.unsupported("does not support confine")
	case s.Dir != "" && !c.dir:
		return nil, c.unsupported("does not support cwd")
	case s.EnvFile != "" && !c.envFile:
		return nil, c.unsupported("does not support envFile")
	}
	own := &config.Server{Command: text(s.Command), Env: pairs(s.Env), EnvFile: text(s.EnvFile), Dir: text(s.Dir)}
	for _, arg := range s.Args {
		own.Args = append(own.Args, text(arg))
	}
	return c.styled(append(c.begin("stdio"), own.Members()...)), first
}

// styled returns an entry in the form of the client.
func (c *Client) styled(entry config.Object) config.Object {
	if c.style == nil {
		return entry
	}
	return c.style(entry)
}

// begin returns an entry that has only the type of the server, if the client needs it.
func (c *Client) begin(kind string) config.Object {
	if c.typed {
		return config.Object{{Name: "type", Value: kind}}
	}
	return nil
}

// Start returns the entry with which the client starts a program.
func (c *Client) Start(program string, args []string, env []config.Pair) config.Object {
	s := &config.Server{Command: program, Args: args, Env: env}
	return c.styled(append(c.begin("stdio"), s.Members()...))
}

// Set adds an entry to a file of the client, or replaces the one with its name. Inputs that the server refers to are
// added if the client has inputs.
func (c *Client) Set(f *jsonedit.File, name string, entry config.Object, s *config.Server) error {
	if err := f.Set(entry, c.member, name); err != nil {
		return err
	}
	if c.inputs && s != nil {
		return config.AddInputs(f, s)
	}
	return nil
}

// Get returns an entry of a file of the client as JSON, or nil.
func (c *Client) Get(f *jsonedit.File, name string) []byte { return f.Get(c.member, name) }

// Remove removes an entry from a file of the client. It reports whether there was one.
func (c *Client) Remove(f *jsonedit.File, name string) bool { return f.Remove(c.member, name) }
