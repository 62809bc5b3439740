package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// rootMembers read the members of a file.
var rootMembers = map[string]reader{
	"mcpServers": readServers, "context_servers": readServers, "servers": readServers,
	"mcp_servers": codexServers,
	"inputs":      (*document).readInputs,
	"mcp":         (*document).settings, // in the settings of an editor, and of opencode
	"projects":    (*document).project,
	"policy": func(d *document, v *hujson.Value, name string) error {
		d.found = true
		if p, err := d.policy(v, name); err != nil {
			d.config.invalid = append(d.config.invalid, err)
		} else {
			d.config.Policies = append(d.config.Policies, p)
		}
		return nil
	},
	"hooks": func(d *document, v *hujson.Value, name string) error {
		d.found = true
		if err := d.hooks(v, name); err != nil {
			d.config.Hooks = nil
			d.config.invalid = append(d.config.invalid, err)
		}
		return nil
	},
	"toolsets": (*document).toolsets,
	"defaultToolset": func(d *document, v *hujson.Value, name string) (err error) {
		d.config.DefaultToolset, err = d.text(v, name)
		return err
	},
	"$schema": func(d *document, v *hujson.Value, name string) error {
		_, err := d.text(v, name)
		return err
	},
}

// ErrNoServers is the error of a file that has no servers.
var ErrNoServers = errors.New(`field "mcpServers" is missing`)

func readServers(d *document, v *hujson.Value, name string) error {
	d.found = true
	return d.servers(v, name)
}

// ownMembers are the members of a file that only parley's own files have.
var ownMembers = []string{"policy", "hooks", "toolsets", "defaultToolset"}

// editorFiles are the ends of the paths of the files of other programs.
var editorFiles = append([]string{
	"/claude_desktop_config.json", "/.claude.json", "/.mcp.json", "/.cursor/mcp.json", "/windsurf/mcp_config.json",
	"/.zed/settings.json",
	"/zed/settings.json", "/Zed/settings.json", "/.gemini/settings.json", "/.codex/config.toml",
	"/opencode.json", "/opencode.jsonc",
}, codeFiles...)

// codeFiles are the ends of the paths of the files of VS Code.
var codeFiles = []string{"/.vscode/mcp.json", "/.vscode/settings.json", "/Code/User/mcp.json",
	"/Code/User/settings.json"}

// isAt reports whether the path of the file ends with one of several ends.
func (d *document) isAt(ends ...string) bool {
	path, err := filepath.Abs(d.path)
	return err == nil && slices.ContainsFunc(ends,
		func(end string) bool { return strings.HasSuffix(filepath.ToSlash(path), end) })
}

// recognize finds out whether the file is one of another program. Other programs have hooks, too, which are an object.
func (d *document) recognize(members []member) []member {
	d.foreign = d.foreign || d.isAt(editorFiles...) || isTOML(d.path)
	if at := find(members, "hooks"); at != nil && d.foreign {
		if _, ok := at.Value.(*hujson.Object); ok {
			members = slices.DeleteFunc(members, func(m member) bool { return m.name == "hooks" })
		}
	}
	strict := false
	for _, m := range members {
		text, _ := m.value.Value.(hujson.Literal)
		if slices.Contains(ownMembers, m.name) ||
			m.name == "$schema" && text.Kind() == '"' && text.String() == SchemaURI {
			strict = true
		}
	}
	if strict { // if the file is one of another program nevertheless, the rest of it is not parley's
		d.foreign, d.own = false, !d.foreign
	}
	return members
}

// read reads the servers of every form that the file has, and the toolsets. Unknown members of the file of another
// program are not for parley, unless their names are almost those of members that are.
func (d *document) read(root *hujson.Value) error {
	withoutNull(root, "mcpServers", "servers", "context_servers", "mcp_servers", "inputs", "mcp", "projects")
	members, err := d.members(root, "the file")
	if err != nil {
		return err
	}
	members = d.recognize(members)
	// The servers of a project replace those of the user.
	rank := map[string]int{"projects": 1}
	sort.SliceStable(members, func(i, j int) bool { return rank[members[i].name] < rank[members[j].name] })
	for _, m := range members {
		member, known := rootMembers[m.name]
		switch near := terminal.Nearest(m.name, ownMembers); {
		case known:
			err = member(d, m.value, m.name)
		case !d.foreign:
			d.config.invalid = append(d.config.invalid,
				d.unknown(m.value, m.name, m.name, slices.Sorted(maps.Keys(rootMembers))))
		case near != "":
			d.warn(m.value, "%s has no effect; did you mean %q?", m.name, near)
		}
		if err != nil {
			return err
		}
	}
	if !d.found && len(d.config.Toolsets) == 0 && len(d.config.invalid) == 0 {
		return fmt.Errorf("%s: %w", d.path, ErrNoServers)
	}
	return nil
}

// settings reads the member mcp of a file with settings. The file of opencode has the servers in it.
func (d *document) settings(v *hujson.Value, what string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		if entry, ok := m.value.Value.(*hujson.Object); ok && isOpencode(m) {
			d.found = true
			if fromOpencode(entry) {
				d.one(m, what)
			}
			continue
		}
		switch m.name {
		case "inputs":
			err = d.readInputs(m.value, m.name)
		case "servers":
			err = readServers(d, m.value, "mcp.servers")
		default:
			if !d.foreign {
				err = d.unknown(m.value, m.name, "mcp."+m.name, []string{"inputs", "servers"})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// project reads the servers of the project that contains the workspace.
func (d *document) project(v *hujson.Value, what string) error {
	projects, err := d.members(v, what)
	if err != nil {
		return err
	}
	var nearest *hujson.Value
	length := -1
	for _, p := range projects {
		members, err := d.members(p.value, fmt.Sprintf("project %q", p.name))
		if err != nil {
			return err
		}
		servers := find(members, ServersMember)
		if servers == nil {
			continue
		}
		d.found = true
		if contains(p.name, d.workspace) && len(p.name) > length {
			nearest, length = servers, len(p.name)
		}
	}
	if nearest == nil {
		return nil
	}
	d.inProject = true
	return d.servers(nearest, ServersMember)
}

// contains reports whether path is folder, or in it.
func contains(folder, path string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// servers reads an object of servers. An entry that cannot be used becomes a problem.
func (d *document) servers(v *hujson.Value, what string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		d.one(m, what)
	}
	return nil
}

// one reads a server of an object of the file.
func (d *document) one(m member, what string) {
	s, err := d.server(m, what == ServersMember && d.isAt("/settings.json"))
	if err != nil {
		d.config.Problems = append(d.config.Problems, Problem{m.name, err})
		return
	}
	d.add(s, what)
}

// add adds a server of an object of the file. A server of a project replaces that of the user, and VS Code uses those
// of servers. Two different servers of one name in other files are reported; see separate.
func (d *document) add(s *Server, object string) {
	ofCode := d.isAt(codeFiles...)
	for i := range d.config.Servers {
		if other := &d.config.Servers[i]; other.Original == s.Original && (d.inProject || ofCode) {
			if d.inProject || strings.HasSuffix(object, "servers") {
				*other = *s
			}
			return
		}
	}
	d.config.Servers = append(d.config.Servers, *s)
}
