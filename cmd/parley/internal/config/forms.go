package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"github.com/tailscale/hujson"
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
	"policy": func(d *document, found *bool, v *hujson.Value, _ string) (err error) {
		*found = true
		if d.config.Policy, err = d.policy(v); err != nil {
			d.config.Policy = nil
			d.config.invalid = append(d.config.invalid, err)
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
		uri, err := d.text(v, name)
		d.ownForm = uri == SchemaURI
		return err
	},
}

// ErrNoServers is the error of a file that has no servers.
var ErrNoServers = errors.New(`member "mcpServers" is missing`)

func readServers(d *document, found *bool, v *hujson.Value, name string) error {
	*found = true
	return d.servers(v, name)
}

// read reads the servers of every form that the file has, and the toolsets. The files of other programs have
// members that are not for parley.
func (d *document) read(root *hujson.Value) error {
	members, err := d.members(root, "the file")
	if err != nil {
		return err
	}
	// The servers of a project replace those of the user, and $schema decides about members without a reader.
	rank := map[string]int{"$schema": -1, "projects": 1}
	sort.SliceStable(members, func(i, j int) bool { return rank[members[i].name] < rank[members[j].name] })
	found := false
	for _, m := range members {
		member, known := rootMembers[m.name]
		if !known && d.ownForm {
			d.warn(m.value, "%s has no effect", m.name)
		}
		if !known {
			continue
		}
		if err := member(d, &found, m.value, m.name); err != nil {
			return err
		}
	}
	if !found && len(d.config.Toolsets) == 0 {
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
	if at := find(members, "inputs"); at != nil {
		if err := d.readInputs(at); err != nil {
			return false, err
		}
	}
	at := find(members, "servers")
	if at == nil {
		return false, nil
	}
	return true, d.servers(at, "mcp.servers")
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
		s, err := d.server(m)
		if err != nil {
			d.config.Problems = append(d.config.Problems, Problem{m.name, err})
			continue
		}
		d.add(s)
	}
	return nil
}

// add adds a server. It replaces a server of another object of the file that has the same name.
func (d *document) add(s *Server) {
	for i := range d.config.Servers {
		if d.config.Servers[i].Original == s.Original {
			d.config.Servers[i] = *s
			return
		}
	}
	d.config.Servers = append(d.config.Servers, *s)
}
