package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"
)

// read reads the servers of every form that the file has.
func (d *document) read(root *hujson.Value) error {
	members, err := d.members(root, "the file")
	if err != nil {
		return err
	}
	found := false
	for _, m := range members {
		var has bool
		switch m.name {
		case "mcpServers", "context_servers", "servers":
			has, err = true, d.servers(m.value, m.name)
		case "inputs":
			err = d.readInputs(m.value)
		case "mcp": // in the settings of an editor
			has, err = d.settings(m.value)
		case "policy":
			has = true
			d.config.Policy, err = d.policy(m.value)
		case "hooks":
			has = true
			d.config.Hooks, err = d.hooks(m.value)
		}
		if err != nil {
			return err
		}
		found = found || has
	}
	// The servers of a project replace those of the user.
	if at := find(members, "projects"); at != nil {
		has, err := d.project(at)
		if err != nil {
			return err
		}
		found = found || has
	}
	if !found {
		return fmt.Errorf(`%s: member "mcpServers" is missing`, d.path)
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

// server reads an entry.
func (d *document) server(m member) (*Server, error) {
	s := &Server{
		Name: validName(m.name), Original: m.name, Source: fmt.Sprintf("%s:%d", d.path, d.line(m.value)),
		folder: filepath.Dir(d.path), inputs: d.inputs(),
	}
	what := fmt.Sprintf("server %q", m.name)
	var kind, source string
	err := d.fields(m.value, what, ": ", func(field, name string, v *hujson.Value) (known bool, err error) {
		switch field {
		case "type":
			kind, err = d.text(v, name)
		case "command":
			err = d.command(s, v, name)
		case "args":
			s.Args, err = d.texts(v, name)
		case "env":
			s.Env, err = d.pairs(v, name)
		case "envFile":
			s.EnvFile, err = d.text(v, name)
		case "cwd":
			s.Dir, err = d.text(v, name)
		case "url", "httpUrl", "serverUrl":
			if s.URL != "" {
				return true, d.errorf(v, "%s: must not have two URLs", what)
			}
			s.URL, err = d.text(v, name)
		case "headers":
			s.Headers, err = d.pairs(v, name)
		case "disabled":
			s.Disabled, err = d.boolean(v, name)
		case "enabled":
			s.Disabled, err = d.boolean(v, name)
			s.Disabled = !s.Disabled
		case "trusted":
			s.Trusted, err = d.boolean(v, name)
		case "roots":
			if s.Roots, err = d.texts(v, name); s.Roots == nil {
				s.Roots = []string{}
			}
		case "source":
			source, err = d.text(v, name)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	err = s.check(kind)
	if err != nil && source == "extension" {
		err = errors.New("is part of an extension of the editor; parley cannot start it")
	}
	if err != nil {
		return nil, d.errorf(m.value, "%s: %w", what, err)
	}
	d.warnUnused(s, m.value, what)
	return s, nil
}

// command reads the command of a server: a string, or an object with path, args and env.
func (d *document) command(s *Server, v *hujson.Value, what string) (err error) {
	if _, ok := v.Value.(*hujson.Object); !ok {
		s.Command, err = d.text(v, what)
		return err
	}
	return d.fields(v, what, ".", func(field, name string, v *hujson.Value) (known bool, err error) {
		switch field {
		case "path":
			s.Command, err = d.text(v, name)
		case "args":
			s.Args, err = d.texts(v, name)
		case "env":
			s.Env, err = d.pairs(v, name)
		default:
			return false, nil
		}
		return true, err
	})
}

func (d *document) warnUnused(s *Server, v *hujson.Value, what string) {
	for _, unused := range []struct {
		given       bool
		field, with string
	}{
		{s.URL != "" && s.Args != nil, "args", "url"}, {s.URL != "" && s.Env != nil, "env", "url"}, {s.URL != "" && s.EnvFile != "", "envFile", "url"},
		{s.URL != "" && s.Dir != "", "cwd", "url"}, {s.Command != "" && s.Headers != nil, "headers", "command"},
	} {
		if unused.given {
			d.warn(v, "%s: %s has no effect on a server with a %s", what, unused.field, unused.with)
		}
	}
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
	case "stdio", "local":
		if s.Command == "" {
			return fmt.Errorf("type %q requires a command", kind)
		}
	case "http", "sse", "streamable-http", "streamableHttp", "remote":
		if s.URL == "" {
			return fmt.Errorf("type %q requires a url", kind)
		}
	default:
		return fmt.Errorf("unknown type %q; use stdio or http", kind)
	}
	return nil
}
