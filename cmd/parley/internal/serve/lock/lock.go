// Package lock keeps the definitions of servers that the user has accepted, in a file: tools, prompts, resources,
// resource templates, skills and instructions. The file is JSON with sorted keys, so that version control shows clear
// diffs.
package lock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// Name is the name of the file next to a configuration file.
const Name = "mcp.lock"

const (
	format  = 1
	maxFile = 64 << 20 // bytes
)

// File is the content of a file. Its methods must not run at the same time, except for Check.
type File struct {
	Format  int                `json:"format"`
	Servers map[string]*Server `json:"servers"`
}

// Server contains the accepted definitions of one server.
type Server struct {
	Instructions *Pin            `json:"instructions,omitempty"`
	Prompts      map[string]*Pin `json:"prompts,omitempty"`
	Resources    map[string]*Pin `json:"resources,omitempty"` // by URI or URI template
	Skills       map[string]*Pin `json:"skills,omitempty"`    // by URI
	Tools        map[string]*Pin `json:"tools,omitempty"`
}

// Pin is one accepted definition.
type Pin struct {
	Digest     string          `json:"digest"` // SHA-256 of the definition without white space
	Definition json.RawMessage `json:"definition"`
}

// New returns a file without definitions.
func New() *File { return &File{Format: format, Servers: make(map[string]*Server)} }

// Load reads a file. The error wraps os.ErrNotExist if the file does not exist.
func Load(path string) (*File, error) {
	data, err := atomicfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*File, error) {
	f := New()
	f.Format = 0
	if err := schema.Decode(data, f); err != nil {
		return nil, fmt.Errorf("cannot read the lock file %s: %w", path, err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("lock file %s must be in format %d, not %d; create it again with parley lock", path,
			format,
			f.Format)
	}
	for name, s := range f.Servers {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("lock file %s: server %q: %w", path, name, err)
		}
	}
	return f, nil
}

// Update changes the file at path while no other parley writes it: change receives what the file has now, and nothing
// is written if it returns an error. The error wraps os.ErrNotExist if the file does not exist.
func Update(ctx context.Context, path string, change func(f *File) error) error {
	return write(ctx, path, func(old []byte) (*File, error) {
		if old == nil { // it was removed meanwhile
			return nil, os.ErrNotExist
		}
		f, err := parse(path, old)
		if err == nil {
			err = change(f)
		}
		return f, err
	})
}

// Create writes a new file. The error wraps os.ErrExist if the file exists.
func (f *File) Create(ctx context.Context, path string) error {
	return write(ctx, path, func(old []byte) (*File, error) {
		if old != nil {
			return nil, os.ErrExist
		}
		return f, nil
	})
}

// write writes the file that change returns for the content at path, atomically. The content is nil without a file.
func write(ctx context.Context, path string, change func(old []byte) (*File, error)) error {
	return atomicfile.Update(ctx, path, maxFile, func(old []byte) ([]byte, error) {
		f, err := change(old)
		if err != nil {
			return nil, err
		}
		return f.Text()
	})
}

// Text returns the content of the file.
func (f *File) Text() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(f)
	return text.Bytes(), err
}

// check verifies the digests.
func (s *Server) check() error {
	if s == nil {
		return errors.New("must be an object")
	}
	for _, d := range s.definitions("") {
		pin := s.pin(d.Kind, d.Name)
		if pin == nil || pin.Digest != digestOf(d.JSON) {
			return fmt.Errorf("the digest of %s does not match its definition; restore the file, or delete it and "+
				"write it "+
				"again with parley lock", d.String())
		}
	}
	return nil
}

// Check returns nil if a definition is the accepted one. Its error has the command that accepts the definition, with
// flags. Check may be called concurrently.
func (f *File) Check(d host.Definition, flags []string) error {
	pin := f.Servers[d.Server].pin(d.Kind, d.Name)
	switch {
	case pin == nil:
		return fmt.Errorf("not accepted yet; see parley lock diff, then run: %s", acceptCommand(d, flags))
	case pin.Digest != digestOf(d.JSON):
		return fmt.Errorf("changed since it was accepted; see parley lock diff, then run: %s", acceptCommand(d, flags))
	}
	return nil
}

func acceptCommand(d host.Definition, flags []string) string {
	words := append([]string{"lock", "accept"}, flags...)
	if d.Kind == host.KindInstructions {
		return quoting.OfUser().Command(words, d.Server)
	}
	return quoting.OfUser().Command(words, d.Server, d.Name)
}

// Accept makes definitions of a server the accepted ones, and removes accepted definitions that are not in current. If
// name is not empty, it changes only the definitions of that name. It reports whether something has changed.
func (f *File) Accept(server, name string, current []host.Definition) (changed bool) {
	now := new(Server)
	before := f.Servers[server]
	if before == nil {
		before = new(Server)
	}
	if name != "" {
		for _, d := range before.definitions(server) {
			if d.Name != name {
				now.set(d)
			}
		}
	}
	for _, d := range current {
		if name == "" || d.Name == name {
			now.set(d)
		}
	}
	changed = len(compare(server, before, now)) > 0
	if now.empty() {
		delete(f.Servers, server)
	} else {
		f.Servers[server] = now
	}
	return changed
}

func (s *Server) empty() bool {
	return s.Instructions == nil && len(s.Prompts)+len(s.Resources)+len(s.Skills)+len(s.Tools) == 0
}

// pin returns an accepted definition, or nil. s may be nil.
func (s *Server) pin(kind host.Kind, name string) *Pin {
	if s == nil {
		return nil
	}
	if pins := s.pins(kind); pins != nil {
		return (*pins)[name]
	}
	return s.Instructions
}

// pins returns the definitions of a kind, or nil for instructions.
func (s *Server) pins(kind host.Kind) *map[string]*Pin {
	switch kind {
	case host.KindTool:
		return &s.Tools
	case host.KindPrompt:
		return &s.Prompts
	case host.KindResource:
		return &s.Resources
	case host.KindSkill:
		return &s.Skills
	}
	return nil
}

func (s *Server) set(d host.Definition) {
	pin := &Pin{Digest: digestOf(d.JSON), Definition: d.JSON}
	pins := s.pins(d.Kind)
	if pins == nil {
		s.Instructions = pin
		return
	}
	if *pins == nil {
		*pins = make(map[string]*Pin)
	}
	(*pins)[d.Name] = pin
}

// digestOf returns the digest of a definition without white space.
func digestOf(definition json.RawMessage) string {
	sum := sha256.Sum256(definition)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// compacted removes the white space of a definition. Its members are sorted already.
func compacted(definition json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, definition) != nil {
		return nil
	}
	return b.Bytes()
}

// Change is a difference between the accepted definitions and those that a server has.
type Change struct {
	Definition host.Definition // what the server has; JSON is nil if it was removed
	Before     json.RawMessage // what is accepted; nil if it is new
	// Renamed is the accepted name of a tool or prompt that is the same except for its name; empty otherwise.
	Renamed string
}

// Compare returns the differences between what is accepted for a server and the definitions that it has,
// in the order of kinds and names.
func (f *File) Compare(server string, current []host.Definition) []Change {
	now := new(Server)
	for _, d := range current {
		now.set(d)
	}
	return compare(server, f.Servers[server], now)
}

func compare(server string, before, now *Server) []Change {
	var changes []Change
	removed := make(map[string]string) // the names, by the kind and the definition without name
	for _, d := range before.definitions(server) {
		if now.pin(d.Kind, d.Name) == nil {
			removed[withoutName(d)] = d.Name
			changes = append(changes, Change{Definition: host.Definition{Server: server, Kind: d.Kind, Name: d.Name},
				Before: d.JSON})
		}
	}
	for _, d := range now.definitions(server) {
		pin := before.pin(d.Kind, d.Name)
		switch {
		case pin == nil:
			changes = append(changes, Change{Definition: d, Renamed: removed[withoutName(d)]})
		case pin.Digest != digestOf(d.JSON):
			changes = append(changes, Change{Definition: d, Before: pin.Definition})
		}
	}
	sort.SliceStable(changes, func(i, j int) bool {
		a, b := &changes[i].Definition, &changes[j].Definition
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) < 0
	})
	return changes
}

// definitions returns the definitions, sorted. s may be nil.
func (s *Server) definitions(server string) (all []host.Definition) {
	if s == nil {
		return nil
	}
	if s.Instructions != nil {
		all = append(all, host.Definition{Server: server, Kind: host.KindInstructions,
			JSON: compacted(s.Instructions.Definition)})
	}
	for _, kind := range []host.Kind{host.KindPrompt, host.KindResource, host.KindSkill, host.KindTool} {
		pins := *s.pins(kind)
		for _, name := range slices.Sorted(maps.Keys(pins)) {
			d := host.Definition{Server: server, Kind: kind, Name: name}
			if pins[name] != nil {
				d.JSON = compacted(pins[name].Definition)
			}
			all = append(all, d)
		}
	}
	return all
}

// withoutName identifies a definition except for its name.
func withoutName(d host.Definition) string {
	text := string(d.Kind)
	for member, value := range jsonrpc.All(d.JSON) {
		if member != "name" && member != "uri" && member != "uriTemplate" {
			text += "," + member + ":" + string(value)
		}
	}
	return text
}

// Digest returns the digest of changes, for a user who accepts what was shown: of the definitions before and after.
func Digest(changes []Change) string {
	hash := sha256.New()
	for i := range changes {
		c := &changes[i]
		d := &c.Definition
		fmt.Fprintf(hash, "%q %q %q %q %q\n", d.Server, d.Kind, d.Name, c.Before, d.JSON)
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// String describes the change in one line, such as `~ tool "read_file" has changed`.
func (c Change) String() string {
	d := &c.Definition
	is, has, was := "is", "has", "was"
	if d.Kind == host.KindInstructions {
		is, has, was = "are", "have", "were"
	}
	switch {
	case d.JSON == nil:
		return fmt.Sprintf("- %s %s removed", d, was)
	case c.Renamed != "":
		return fmt.Sprintf("+ %s %s new; it is the same as %q, which was removed", d, is, c.Renamed)
	case c.Before == nil:
		return fmt.Sprintf("+ %s %s new", d, is)
	}
	return fmt.Sprintf("~ %s %s changed", d, has)
}

// Diff returns the lines of the definitions that differ, in the unified format. It returns the whole
// definition if it is new, and nothing if it was removed.
func (c Change) Diff() string {
	switch {
	case c.Definition.JSON == nil:
		return ""
	case c.Before == nil:
		return "+" + strings.ReplaceAll(strings.TrimSuffix(indented(c.Definition.JSON), "\n"), "\n", "\n+") + "\n"
	}
	text := string(diff.Diff("accepted", []byte(indented(c.Before)), "current", []byte(indented(c.Definition.JSON))))
	if _, hunks, found := strings.Cut(text, "\n@@"); found { // without the names of the texts
		text = "@@" + hunks
	}
	return text
}

// indented returns a definition with a line for each member. Line feeds in instructions and descriptions
// separate lines, too.
func indented(definition json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, definition, "", "  ") != nil {
		return string(definition) + "\n"
	}
	return strings.ReplaceAll(b.String(), `\n`, "\\n\n") + "\n"
}
