package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Change is a difference between the accepted definitions and those that a server has.
type Change struct {
	Definition host.Definition // what the server has; JSON is nil if it was removed
	Before     json.RawMessage // what is accepted; nil if it is new
	// Renamed is the accepted name of a tool or prompt that is the same except for its name; empty
	// otherwise.
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
			changes = append(changes, Change{Definition: host.Definition{Server: server, Kind: d.Kind, Name: d.Name}, Before: d.JSON})
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
		return a.Kind+" "+a.Name < b.Kind+" "+b.Name
	})
	return changes
}

// definitions returns the definitions, sorted. s may be nil.
func (s *Server) definitions(server string) (all []host.Definition) {
	if s == nil {
		return nil
	}
	if s.Instructions != nil {
		all = append(all, host.Definition{Server: server, Kind: host.KindInstructions, JSON: compacted(s.Instructions.Definition)})
	}
	for _, kind := range []string{host.KindPrompt, host.KindResource, host.KindTool} {
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
	text := d.Kind
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
