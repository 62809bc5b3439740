package config

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
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
	foreign bool
	// own means that the file, or the object that is being read, is surely of parley's own form. Another program may
	// need what parley does not know in other files.
	own       bool
	found     bool // the file has servers, a policy or webhooks
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
			return nil, d.errorf(&m.Name, "%s: duplicate field %q", what, name)
		}
		seen[name] = true
		members = append(members, member{name, &m.Value})
	}
	return members, nil
}

// array reads an array of objects. One reads each of them.
func (d *document) array(v *hujson.Value, what string, one func(v *hujson.Value, what string) error) error {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return d.errorf(v, "%s must be an array of objects", what)
	}
	for i := range array.Elements {
		if err := one(&array.Elements[i], fmt.Sprintf("%s[%d]", what, i)); err != nil {
			return err
		}
	}
	return nil
}

// unknown reports a member that parley does not know, whose name in messages is what: as an error that names the
// nearest of the known members, or as a warning in the file of another program.
func (d *document) unknown(v *hujson.Value, field, what string, known []string) error {
	if d.foreign {
		d.warn(v, "%s has no effect", what)
		return nil
	}
	advice := "remove it"
	if !d.own {
		advice = "if the file belongs to another program, leave it as it is, and add its servers with parley import " +
			quoting.OfUser().Quote(d.path)
	}
	if near := terminal.Nearest(field, known); near != "" {
		advice = fmt.Sprintf("did you mean %q?", near)
	}
	return d.errorf(v, "%s is unknown; %s", what, advice)
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

// limit reads a positive number, or -1 for no limit.
func (d *document) limit(v *hujson.Value, what string) (int64, error) {
	if literal, ok := v.Value.(hujson.Literal); ok {
		n, err := strconv.ParseInt(string(literal), 10, 32)
		if err == nil && (n > 0 || n == -1) {
			return n, nil
		}
	}
	return 0, d.errorf(v, "%s must be a whole number from 1 to 2147483647, or -1 for no limit", what)
}

// duration reads a positive duration, such as "90s".
func (d *document) duration(v *hujson.Value, what string) (time.Duration, error) {
	text, err := d.text(v, what)
	if err != nil {
		return 0, err
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		return 0, d.errorf(v, `%s must be a positive duration such as "90s" or "5m", not %q`, what, text)
	}
	return duration, nil
}

// oneOf reads one of several words, and returns its index. With an error, it is the index of the last word.
func (d *document) oneOf(v *hujson.Value, what string, words ...string) (int, error) {
	last := len(words) - 1
	text, err := d.text(v, what)
	if err != nil {
		return last, err
	}
	if i := slices.Index(words, text); i >= 0 {
		return i, nil
	}
	return last, d.errorf(v, `%s must be "%s" or %q, not %q`, what, strings.Join(words[:last], `", "`), words[last], text)
}

func (d *document) texts(v *hujson.Value, what string) (texts []string, err error) {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, d.errorf(v, "%s must be an array of strings", what)
	}
	for i := range array.Elements {
		text, err := d.text(&array.Elements[i], fmt.Sprintf("%s[%d]", what, i))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// names reads an object of strings.
func (d *document) names(v *hujson.Value, what string) (map[string]string, error) {
	members, err := d.members(v, what)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(members))
	for _, m := range members {
		if names[m.name], err = d.text(m.value, what+" "+m.name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// pairs reads environment variables or header fields.
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

func (d *document) networks(v *hujson.Value, what string) (networks []netip.Prefix, err error) {
	texts, err := d.texts(v, what)
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, d.errorf(v, "%s: %q must be a network, such as 10.0.0.0/8", what, text)
		}
		networks = append(networks, network)
	}
	return networks, err
}

// at returns the file and line of a value.
func (d *document) at(v *hujson.Value) string {
	before := d.data[:min(v.StartOffset, len(d.data))]
	return fmt.Sprintf("%s:%d", d.path, 1+bytes.Count(before, []byte("\n")))
}

func (d *document) errorf(v *hujson.Value, format string, args ...any) error {
	return fmt.Errorf("%s: %w", d.at(v), fmt.Errorf(format, args...))
}

func (d *document) warn(v *hujson.Value, format string, args ...any) {
	d.config.Warnings = append(d.config.Warnings, d.at(v)+": "+fmt.Sprintf(format, args...))
}
