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

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
)

// rootMembers are the members of a file. Their readers set found if the file has servers.
var rootMembers = readers[bool]{
	"mcpServers": readServers, "context_servers": readServers, "servers": readServers,
	"inputs": func(d *document, _ *bool, v *hujson.Value, _ string) error { return d.readInputs(v) },
	"mcp": func(d *document, found *bool, v *hujson.Value, _ string) error { // in the settings of an editor
		has, err := d.settings(v)
		*found = *found || has
		return err
	},
	"projects": func(d *document, found *bool, v *hujson.Value, _ string) error {
		has, err := d.project(v)
		*found = *found || has
		return err
	},
	"policy": func(d *document, found *bool, v *hujson.Value, _ string) error {
		*found = true
		if p, err := d.policy(v); err != nil {
			d.config.invalid = append(d.config.invalid, err)
		} else {
			d.config.Policies = append(d.config.Policies, p)
		}
		return nil
	},
	"hooks": func(d *document, found *bool, v *hujson.Value, _ string) (err error) {
		*found = true
		if d.config.Hooks, err = d.hooks(v); err != nil {
			d.config.invalid = append(d.config.invalid, err)
		}
		return nil
	},
	"toolsets": func(d *document, _ *bool, v *hujson.Value, _ string) error { return d.toolsets(v) },
	"defaultToolset": func(d *document, _ *bool, v *hujson.Value, name string) (err error) {
		d.config.DefaultToolset, err = d.text(v, name)
		return err
	},
	"$schema": func(d *document, _ *bool, v *hujson.Value, name string) error {
		_, err := d.text(v, name)
		return err
	},
}

// ErrNoServers is the error of a file that has no servers.
var ErrNoServers = errors.New(`member "mcpServers" is missing`)

func readServers(d *document, found *bool, v *hujson.Value, name string) error {
	*found = true
	return d.servers(v, name)
}

// ownMembers are the members of a file that only parley's own files have.
var ownMembers = []string{"policy", "hooks", "toolsets", "defaultToolset"}

// editorFiles are the ends of the paths of the files of other programs.
var editorFiles = append([]string{
	"/claude_desktop_config.json", "/.claude.json", "/.mcp.json", "/.cursor/mcp.json", "/windsurf/mcp_config.json",
	"/.zed/settings.json",
	"/zed/settings.json", "/Zed/settings.json", "/.gemini/settings.json",
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
	d.foreign = d.foreign || d.isAt(editorFiles...)
	if at := find(members, "hooks"); at != nil && d.foreign {
		if _, ok := at.Value.(*hujson.Object); ok {
			members = slices.DeleteFunc(members, func(m member) bool { return m.name == "hooks" })
		}
	}
	for _, m := range members {
		text, _ := m.value.Value.(hujson.Literal)
		if slices.Contains(ownMembers, m.name) || m.name == "$schema" && text.Kind() == '"' &&
			text.String() == SchemaURI {
			d.foreign = false
		}
	}
	return members
}

// read reads the servers of every form that the file has, and the toolsets. Unknown members of the file of another
// program are not for parley, unless their names are almost those of members that are.
func (d *document) read(root *hujson.Value) error {
	withoutNull(root, "mcpServers", "servers", "context_servers", "inputs", "mcp", "projects")
	members, err := d.members(root, "the file")
	if err != nil {
		return err
	}
	members = d.recognize(members)
	// The servers of a project replace those of the user.
	rank := map[string]int{"projects": 1}
	sort.SliceStable(members, func(i, j int) bool { return rank[members[i].name] < rank[members[j].name] })
	found := false
	for _, m := range members {
		member, known := rootMembers[m.name]
		switch near := nearest.Name(m.name, ownMembers); {
		case known:
			err = member(d, &found, m.value, m.name)
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
	if !found && len(d.config.Toolsets) == 0 && len(d.config.invalid) == 0 {
		return fmt.Errorf("%s: %w", d.path, ErrNoServers)
	}
	return nil
}

// settings reads the member mcp of a file with settings. It reports whether it has servers.
func (d *document) settings(v *hujson.Value) (bool, error) {
	members, err := d.members(v, "mcp")
	if err != nil {
		return false, err
	}
	found := false
	for _, m := range members {
		switch m.name {
		case "inputs":
			err = d.readInputs(m.value)
		case "servers":
			found, err = true, d.servers(m.value, "mcp.servers")
		default:
			if !d.foreign {
				err = d.unknown(m.value, m.name, "mcp."+m.name, []string{"inputs", "servers"})
			}
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// project reads the servers of the project that contains the workspace. It reports whether the file
// has servers of any project.
func (d *document) project(v *hujson.Value) (found bool, err error) {
	projects, err := d.members(v, "projects")
	if err != nil {
		return false, err
	}
	var nearest *hujson.Value
	length := -1
	for _, p := range projects {
		members, err := d.members(p.value, fmt.Sprintf("project %q", p.name))
		if err != nil {
			return false, err
		}
		servers := find(members, "mcpServers")
		if servers == nil {
			continue
		}
		found = true
		if contains(p.name, d.workspace) && len(p.name) > length {
			nearest, length = servers, len(p.name)
		}
	}
	if nearest == nil {
		return found, nil
	}
	d.inProject = true
	return true, d.servers(nearest, "mcpServers")
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
		s, err := d.server(m, what == ServersMember && d.isAt("/settings.json"))
		if err != nil {
			d.config.Problems = append(d.config.Problems, Problem{m.name, err})
			continue
		}
		d.add(s, what)
	}
	return nil
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

// document reads a file. It walks the syntax tree instead of decoding it, to detect
// duplicate names and to report line numbers.
type document struct {
	path       string
	data       []byte
	workspace  string
	config     *Config
	inputsByID map[string]*Input
	// foreign means that the file belongs to another program, which has members that parley does not know. In other
	// files, such a member is an error: it may be a misspelt limit or policy.
	foreign   bool
	inProject bool // the servers of a project are being read
}

// member is one member of an object.
type member struct {
	name  string
	value *hujson.Value
}

// find returns the value of a member, or nil.
func find(members []member, name string) *hujson.Value {
	for _, m := range members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (d *document) members(v *hujson.Value, what string) ([]member, error) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, d.errorf(v, "%s must be an object", what)
	}
	seen := make(map[string]bool)
	var members []member
	for i := range object.Members {
		m := &object.Members[i]
		name := m.Name.Value.(hujson.Literal).String()
		if seen[name] {
			return nil, d.errorf(&m.Name, "%s: duplicate member %q", what, name)
		}
		seen[name] = true
		members = append(members, member{name, &m.Value})
	}
	return members, nil
}

// unknown reports a member that parley does not know, whose name in messages is what: as an error that names the
// nearest of the known members, or as a warning in the file of another program.
func (d *document) unknown(v *hujson.Value, field, what string, known []string) error {
	if d.foreign {
		d.warn(v, "%s has no effect", what)
		return nil
	}
	advice := "remove it"
	if near := nearest.Name(field, known); near != "" {
		advice = fmt.Sprintf("did you mean %q?", near)
	}
	return d.errorf(v, "%s is unknown; %s", what, advice)
}

// readers read the members of an object into a value, by the names of the members.
type readers[T any] map[string]func(d *document, to *T, v *hujson.Value, name string) error

// read reads the members of an object. In messages, their names are what, separator and their own name.
func read[T any](d *document, to *T, by readers[T], v *hujson.Value, what, separator string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		name := what + separator + m.name
		if member, known := by[m.name]; known {
			err = member(d, to, m.value, name)
		} else {
			err = d.unknown(m.value, m.name, name, slices.Sorted(maps.Keys(by)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readOwn is read for an object that no other program has in its files: an unknown member is always an error.
func readOwn[T any](d *document, to *T, by readers[T], v *hujson.Value, what, separator string) error {
	own := *d
	own.foreign = false
	return read(&own, to, by, v, what, separator)
}

// withoutNull removes members of an object whose value is null.
func withoutNull(v *hujson.Value, names ...string) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return
	}
	object.Members = slices.DeleteFunc(object.Members, func(m hujson.ObjectMember) bool {
		literal, ok := m.Value.Value.(hujson.Literal)
		return ok && literal.Kind() == 'n' && slices.Contains(names, m.Name.Value.(hujson.Literal).String())
	})
}

// has reports whether an object has a member.
func has(v *hujson.Value, name string) bool {
	object, ok := v.Value.(*hujson.Object)
	return ok && slices.ContainsFunc(object.Members,
		func(m hujson.ObjectMember) bool { return m.Name.Value.(hujson.Literal).String() == name })
}

func (d *document) text(v *hujson.Value, what string) (string, error) {
	literal, ok := v.Value.(hujson.Literal)
	if !ok || literal.Kind() != '"' {
		return "", d.errorf(v, "%s must be a string", what)
	}
	text := literal.String()
	if strings.ContainsRune(text, 0) {
		return "", d.errorf(v, "%s must not contain a NUL character", what)
	}
	return text, nil
}

// scalar returns a string, a number or a boolean as text. given is false for null, which some programs
// write for a variable that a server must not have.
func (d *document) scalar(v *hujson.Value, what string) (text string, given bool, err error) {
	if literal, ok := v.Value.(hujson.Literal); ok {
		switch literal.Kind() {
		case 'n':
			return "", false, nil
		case 't', 'f', '0':
			return string(literal), true, nil
		}
	}
	text, err = d.text(v, what)
	return text, true, err
}

func (d *document) boolean(v *hujson.Value, what string) (bool, error) {
	literal, ok := v.Value.(hujson.Literal)
	if !ok || literal.Kind() != 't' && literal.Kind() != 'f' {
		return false, d.errorf(v, "%s must be true or false", what)
	}
	return literal.Bool(), nil
}

func (d *document) texts(v *hujson.Value, what string) ([]string, error) {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, d.errorf(v, "%s must be an array of strings", what)
	}
	var texts []string
	for i := range array.Elements {
		text, err := d.text(&array.Elements[i], fmt.Sprintf("%s[%d]", what, i))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func (d *document) pairs(v *hujson.Value, what string) ([]Pair, error) {
	members, err := d.members(v, what)
	if err != nil {
		return nil, err
	}
	var pairs []Pair
	for _, m := range members {
		value, given, err := d.scalar(m.value, what+" "+m.name)
		if err != nil {
			return nil, err
		}
		if !given {
			continue
		}
		if m.name == "" || strings.ContainsAny(m.name, "=\x00\r\n") || strings.ContainsAny(value, "\r\n") &&
			strings.HasSuffix(what, "headers") {
			return nil, d.errorf(m.value, "%s: invalid name or value for %q", what, m.name)
		}
		pairs = append(pairs, Pair{m.name, value})
	}
	return pairs, nil
}

func (d *document) line(v *hujson.Value) int {
	at := min(v.StartOffset, len(d.data))
	return 1 + strings.Count(string(d.data[:at]), "\n")
}

func (d *document) errorf(v *hujson.Value, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.path, d.line(v), fmt.Errorf(format, args...))
}

func (d *document) warn(v *hujson.Value, format string, args ...any) {
	d.config.Warnings = append(d.config.Warnings, fmt.Sprintf("%s:%d: ", d.path, d.line(v))+
		fmt.Sprintf(format, args...))
}
