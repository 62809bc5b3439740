package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
)

// document reads a file. It walks the syntax tree instead of decoding it, to detect
// duplicate names and to report line numbers.
type document struct {
	path string
	data []byte
	file *File
}

func (d *document) read(root *hujson.Value) error {
	members, err := d.members(root, "the file")
	if err != nil {
		return err
	}
	found := false
	for _, m := range members {
		if m.name != "mcpServers" {
			d.warn(m.value, "%q has no effect", m.name)
			continue
		}
		found = true
		servers, err := d.members(m.value, "mcpServers")
		if err != nil {
			return err
		}
		for _, s := range servers {
			server, err := d.server(s)
			if err != nil {
				return err
			}
			d.file.Servers = append(d.file.Servers, server)
		}
	}
	switch {
	case found:
		return nil
	case slices.ContainsFunc(members, func(m member) bool { return m.name == "servers" }):
		return fmt.Errorf(`%s: member "mcpServers" is missing; rename "servers" to "mcpServers"`, d.path)
	}
	return fmt.Errorf(`%s: member "mcpServers" is missing`, d.path)
}

func (d *document) server(m member) (Server, error) {
	s := Server{Name: m.name, folder: filepath.Dir(d.path)}
	if err := host.CheckName(m.name); err != nil {
		return s, d.errorf(m.value, "%w", err)
	}
	what := fmt.Sprintf("server %q", m.name)
	fields, err := d.members(m.value, what)
	if err != nil {
		return s, err
	}
	kind := ""
	for _, f := range fields {
		name := what + ": " + f.name
		switch f.name {
		case "type":
			kind, err = d.text(f.value, name)
		case "command":
			s.Command, err = d.text(f.value, name)
		case "args":
			s.Args, err = d.texts(f.value, name)
		case "env":
			s.Env, err = d.pairs(f.value, name)
		case "cwd":
			s.Dir, err = d.text(f.value, name)
		case "url":
			s.URL, err = d.text(f.value, name)
		case "headers":
			s.Headers, err = d.pairs(f.value, name)
		case "disabled":
			s.Disabled, err = d.boolean(f.value, name)
		default:
			d.warn(f.value, "%s has no effect", name)
		}
		if err != nil {
			return s, err
		}
	}
	if err := s.check(kind); err != nil {
		return s, d.errorf(m.value, "%s: %w", what, err)
	}
	for _, unused := range []struct {
		given       bool
		field, with string
	}{
		{s.URL != "" && s.Args != nil, "args", "url"}, {s.URL != "" && s.Env != nil, "env", "url"}, {s.URL != "" && s.Dir != "", "cwd", "url"},
		{s.Command != "" && s.Headers != nil, "headers", "command"},
	} {
		if unused.given {
			d.warn(m.value, "%s: %s has no effect on a server with a %s", what, unused.field, unused.with)
		}
	}
	return s, nil
}

// member is one member of an object.
type member struct {
	name  string
	value *hujson.Value
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
		value, err := d.text(m.value, what+" "+m.name)
		if err != nil {
			return nil, err
		}
		if m.name == "" || strings.ContainsAny(m.name, "=\x00\r\n") || strings.ContainsAny(value, "\r\n") && strings.HasSuffix(what, "headers") {
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
	d.file.Warnings = append(d.file.Warnings, fmt.Sprintf("%s:%d: ", d.path, d.line(v))+fmt.Sprintf(format, args...))
}
