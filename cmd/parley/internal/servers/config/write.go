package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/host"
)

// ServersMember is the member of parley's own files that has the servers.
const ServersMember = "mcpServers"

// Members returns the members of the entry of the server in parley's own form, without its credentials.
func (s *Server) Members() Object { return serverFields.object(&entry{Server: s}) }

// MarshalJSON implements json.Marshaler. It returns the entry of the server, which must have no credentials.
func (s *Server) MarshalJSON() ([]byte, error) {
	if s.Credentials != nil {
		return nil, errors.New("cannot write the credentials of a server")
	}
	return s.Members().MarshalJSON()
}

// Members returns the members of the toolset.
func (t *Toolset) Members() Object {
	o := toolsetFields.object(t)
	if t.Principals != nil {
		o = append(o, Member{"principals", t.Principals})
	}
	return o
}

// Detach replaces the paths of the server that are relative to the directory of its file by absolute ones, so that
// the server can be written to a file in another directory.
func (s *Server) Detach() error {
	folder, err := filepath.Abs(s.folder)
	if err != nil {
		return err
	}
	for _, path := range []*string{&s.EnvFile, &s.Dir} {
		if *path != "" {
			*path = absolute(folder, *path)
		}
	}
	for i := range s.Roots {
		s.Roots[i] = absolute(folder, s.Roots[i])
	}
	for _, path := range s.confined() {
		if *path != "~" && !strings.HasPrefix(*path, "~/") {
			*path = absolute(folder, *path)
		}
	}
	for _, text := range s.values() {
		*text = detached(folder, *text)
	}
	s.folder = folder
	return nil
}

// values returns the values in which references are expanded.
func (s *Server) values() []*string {
	values := []*string{&s.Command, &s.URL, &s.EnvFile, &s.Dir}
	for i := range s.Args {
		values = append(values, &s.Args[i])
	}
	for i := range s.Env {
		values = append(values, &s.Env[i].Value)
	}
	for i := range s.Headers {
		values = append(values, &s.Headers[i].Value)
	}
	for i := range s.Roots {
		values = append(values, &s.Roots[i])
	}
	return append(values, s.confined()...)
}

// confined returns the paths that a confined program may access.
func (s *Server) confined() (paths []*string) {
	if s.Confine == nil {
		return nil
	}
	for _, of := range [][]string{s.Confine.Read, s.Confine.Write} {
		for i := range of {
			paths = append(paths, &of[i])
		}
	}
	return paths
}

// Same reports whether two servers have the same entry, wherever it is from.
func Same(a, b *Server) bool {
	encode := func(s Server) []byte {
		s.Origin, s.Args, s.Env, s.Headers, s.Roots = "", slices.Clone(s.Args), slices.Clone(s.Env),
			slices.Clone(s.Headers),
			slices.Clone(s.Roots)
		s.Confine = s.Confine.Clone()
		_ = s.Detach() // with an error the paths differ
		encoded, err := json.Marshal(&s)
		if err != nil {
			return nil
		}
		return encoded
	}
	first := encode(*a)
	return first != nil && bytes.Equal(first, encode(*b))
}

func absolute(folder, path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, "${") {
		return path
	}
	return filepath.Join(folder, path)
}

// detached returns text with absolute paths in its references to files.
func detached(folder, text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${file:")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		path, rest, _ := strings.Cut(after, "}")
		b.WriteString("${file:" + absolute(folder, path) + "}")
		text = rest
	}
}

// UsedInputs returns the inputs of the file that the server refers to, in the order in which it refers to them.
func (s *Server) UsedInputs() (used []*Input) {
	seen := make(map[string]bool)
	for _, text := range s.values() {
		for _, m := range references.FindAllStringSubmatch(*text, -1) {
			id := m[2]
			if in := s.inputs[id]; m[1] == "input" && in != nil && !seen[id] {
				seen[id] = true
				used = append(used, in)
			}
		}
	}
	return used
}

// Set adds a server to a file of parley's own form, or replaces the one with its name. It returns the server of the new
// entry, or an error if the entry could not be used. It does not check references.
func Set(f *jsonedit.File, s *Server) (*Server, error) {
	if !f.Exists() {
		if err := f.Set(SchemaURI, "$schema"); err != nil {
			return nil, err
		}
	}
	if err := f.Set(s, ServersMember, s.Name); err != nil {
		return nil, err
	}
	written, err := Parse("", f.Path(), f.Bytes())
	if err != nil {
		return nil, err
	}
	return written.Find(s.Name)
}

// AddInputs adds the inputs that a server refers to. It returns an error if the file has another input with such an ID.
func AddInputs(f *jsonedit.File, s *Server) error {
	for _, in := range s.UsedInputs() {
		existing, err := inputOf(f, in.ID)
		switch {
		case err != nil:
			return err
		case existing != nil && !reflect.DeepEqual(existing, in):
			return fmt.Errorf("%s has another input %q; rename one of them", f.Path(), in.ID)
		case existing != nil:
			continue
		}
		kind := "promptString"
		if len(in.Options) > 0 {
			kind = "pickString"
		}
		if err := f.Append(append(Object{{"type", kind}}, inputFields.object(in)...), "inputs"); err != nil {
			return err
		}
	}
	return nil
}

// inputOf returns an input of a file, or nil.
func inputOf(f *jsonedit.File, id string) (*Input, error) {
	inputs := f.Get("inputs")
	if inputs == nil {
		return nil, nil
	}
	root, err := hujson.Parse(inputs)
	if err != nil {
		return nil, err
	}
	d := &document{path: f.Path(), config: new(Config)}
	if err := d.readInputs(&root, "inputs"); err != nil {
		return nil, err
	}
	return d.inputs()[id], nil
}

// maxName is the length to which a name is cut before a digest is appended, in bytes.
const maxName = 48

// validName returns the name of a server for the name of an entry: the same name if a host permits it.
// Otherwise other characters than ASCII letters, digits, hyphens and underscores become hyphens. A
// digest of the original name follows if the result is too long or has no letter or digit.
func validName(original string) string {
	if (&host.ServerConfig{Name: original}).Check() == nil {
		return original
	}
	var b strings.Builder
	word := false // the name has a letter or a digit
	for _, r := range original {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9':
			word = true
			b.WriteRune(r)
		case r == '_' && strings.HasSuffix(b.String(), "_"):
		case r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-_")
	if word && len(name) <= maxName {
		return name
	}
	return digested(name, original)
}

// digested returns a name with a digest of the original one.
func digested(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	return strings.TrimLeft(name[:min(len(name), maxName)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// Written returns the names of the servers as they are written in the files, by those that they have in a host. It has
// the names that differ.
func (c *Config) Written() map[string]string {
	names := make(map[string]string)
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Name != s.Original {
			names[s.Name] = s.Original
		}
	}
	return names
}

// separate appends a digest to the names that were changed and become the same as others, unless a file that decides
// has one of them. It removes the other servers whose names are or become the same, and reports each of them: otherwise
// the order of the files would decide which server has the name, and which limits it has. One of a file that decides
// stays, and one of several that are the same.
func (c *Config) separate() {
	for _, all := range c.byName() {
		if len(all) == 1 || preferred(all) != nil {
			continue
		}
		for _, s := range all {
			same := slices.DeleteFunc(slices.Clone(all),
				func(other *Server) bool { return other.Original != s.Original })
			if s.Name != s.Original && len(same) == 1 {
				s.Name = digested(s.Name, s.Original)
			}
		}
	}
	byName := c.byName()
	var kept []Server
	for i := range c.Servers {
		s := &c.Servers[i]
		all := byName[s.Name]
		if len(all) == 1 {
			kept = append(kept, *s)
			continue
		}
		if one := preferred(all); one == s {
			kept = append(kept, *s)
		} else if one != nil && Same(one, s) && one.Original == s.Original {
			continue
		} else if one != nil {
			c.Warnings = append(c.Warnings,
				fmt.Sprintf("%s: server %q is not used, because %s has the name", s.Source, s.Original, one.Source))
		} else {
			c.Problems = append(c.Problems, Problem{s.Original, ambiguous(s, all)})
		}
	}
	c.Servers = kept
}

func (c *Config) byName() map[string][]*Server {
	byName := make(map[string][]*Server)
	for i := range c.Servers {
		s := &c.Servers[i]
		byName[s.Name] = append(byName[s.Name], s)
	}
	return byName
}

// preferred returns the one of several servers with one name that is used, or nil.
func preferred(all []*Server) *Server {
	var deciding []*Server
	same := true
	for _, s := range all {
		if s.decides {
			deciding = append(deciding, s)
		}
		same = same && Same(s, all[0]) && s.Original == all[0].Original
	}
	switch {
	case len(deciding) == 1: // also of servers that are the same, because their files can have other inputs
		return deciding[0]
	case same:
		return all[0]
	}
	return nil
}

func ambiguous(s *Server, all []*Server) error {
	var names, sources []string
	for _, other := range all {
		names, sources = append(names, other.Original), append(sources, other.Source)
	}
	if slices.Equal(names, slices.Repeat([]string{s.Original}, len(names))) {
		return fmt.Errorf("%s: there are several servers %q, at %s; rename or remove one of them", s.Source, s.Original,
			strings.Join(sources, ", "))
	}
	return fmt.Errorf("%s: the names of the servers %q all become %s; rename one of them", s.Source, names, s.Name)
}
