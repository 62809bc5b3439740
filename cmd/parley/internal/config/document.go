package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
)

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
	return ok && slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool { return m.Name.Value.(hujson.Literal).String() == name })
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
	d.config.Warnings = append(d.config.Warnings, fmt.Sprintf("%s:%d: ", d.path, d.line(v))+fmt.Sprintf(format, args...))
}
