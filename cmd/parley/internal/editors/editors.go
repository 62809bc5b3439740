// Package editors knows where editors and other clients have their configuration files, and which form their entries of
// MCP servers have.
package editors

import (
	"os"
	"runtime"
	"strings"
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

// config returns the directory of the user's configuration: on Linux and other systems that of the XDG specification.
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
	// reference returns a reference in the notation of the client, or false if it has none.
	reference func(r reference) (string, bool)
	dollars   bool // $NAME without braces is a reference, too
}

// Clients returns all clients that are known.
func Clients() []*Client {
	return []*Client{
		{
			Name: "claude", Title: "Claude Desktop", member: "mcpServers",
			user:      func(p *Place) string { return p.join(p.config(), "Claude", "claude_desktop_config.json") },
			reference: func(reference) (string, bool) { return "", false },
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
			Name: "vscode", Title: "VS Code", member: "servers", http: "url", typed: true, dir: true, envFile: true, inputs: true,
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
			reference: func(reference) (string, bool) { return "", false },
		},
		{
			Name: "gemini", Title: "Gemini CLI", member: "mcpServers", http: "httpUrl", dir: true, dollars: true,
			user:      func(p *Place) string { return p.join(p.Home, ".gemini", "settings.json") },
			project:   []string{".gemini", "settings.json"},
			reference: plainVariable,
		},
	}
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
	return p.join(append([]string{p.Workspace}, c.project...)...)
}

// Files returns the paths of the files that the client reads: the user's, then the project's.
func (c *Client) Files(p *Place) []string {
	files := []string{c.UserFile(p)}
	if project := c.ProjectFile(p); project != "" {
		files = append(files, project)
	}
	return files
}
