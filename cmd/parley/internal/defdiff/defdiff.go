// Package defdiff compares the definitions of two servers, or of one server at two times: tools, prompts, resources and
// resource templates. It knows which changes break clients.
package defdiff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The kinds of definitions.
const (
	Server   = "server" // its instructions and capabilities
	Tool     = "tool"
	Prompt   = "prompt"
	Resource = "resource"
	Template = "resource template"
)

// Definition is the definition of a tool, prompt, resource or resource template, or what a server says about itself.
type Definition struct {
	Kind string
	Name string // or the URI, or the URI template; empty for the server
	JSON []byte
}

// Change is one difference between definitions.
type Change struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Path is the JSON Pointer (RFC 6901) of the member that differs. It is empty if the whole definition was added or
	// removed. Arguments of prompts are members of /arguments by their names.
	Path   string         `json:"path,omitempty"`
	Before jsontext.Value `json:"before,omitzero"` // nil if it was added
	After  jsontext.Value `json:"after,omitzero"`  // nil if it was removed
	// Breaking says why clients that use the earlier definition can fail; empty if nothing is known.
	Breaking string `json:"breaking,omitempty"`
}

// Compare returns the differences, in the order of kinds, names and paths. It fails if a definition is not valid.
func Compare(before, after []Definition) ([]Change, error) {
	type key struct{ kind, name string }
	old, now := make(map[key]jsontext.Value), make(map[key]jsontext.Value)
	for into, all := range map[*map[key]jsontext.Value][]Definition{&old: before, &now: after} {
		for _, d := range all {
			value, err := normalized(d)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", d.Kind, d.Name, err)
			}
			(*into)[key{d.Kind, d.Name}] = value
		}
	}
	keys := slices.Collect(maps.Keys(old))
	for k := range now {
		if _, both := old[k]; !both {
			keys = append(keys, k)
		}
	}
	order := []string{Server, Tool, Prompt, Resource, Template}
	sort.Slice(keys, func(i, j int) bool {
		a, b := keys[i], keys[j]
		return cmp.Or(slices.Index(order, a.kind)-slices.Index(order, b.kind), strings.Compare(a.name, b.name)) < 0
	})
	changes := []Change{}
	for _, k := range keys {
		c := comparison{kind: k.kind, name: k.name}
		switch {
		case now[k] == nil:
			c.add(nil, old[k], nil, "it is removed")
		case old[k] == nil:
			c.add(nil, nil, now[k], "")
		default:
			c.compare(nil, old[k], now[k])
		}
		changes = append(changes, c.changes...)
	}
	return changes, nil
}

// normalized returns a definition whose arguments, if it is a prompt, are an object.
func normalized(d Definition) (jsontext.Value, error) {
	members := make(map[string]jsontext.Value)
	if err := json.Unmarshal(d.JSON, &members); err != nil {
		return nil, err
	}
	if d.Kind != Prompt {
		return d.JSON, nil
	}
	var arguments []map[string]jsontext.Value
	if raw := members["arguments"]; raw != nil {
		if err := json.Unmarshal(raw, &arguments); err != nil {
			return nil, err
		}
	}
	byName := make(map[string]map[string]jsontext.Value)
	for _, a := range arguments {
		var name string
		if err := json.Unmarshal(a["name"], &name); err != nil {
			return nil, err
		}
		delete(a, "name")
		byName[name] = a
	}
	encoded, err := json.Marshal(byName)
	if err != nil {
		return nil, err
	}
	members["arguments"] = encoded
	return json.Marshal(members)
}

// comparison compares two definitions with one name.
type comparison struct {
	kind, name string
	changes    []Change
}

func (c *comparison) add(place []string, before, after jsontext.Value, breaking string) {
	var path jsontext.Pointer
	for _, name := range place {
		path = path.AppendToken(name)
	}
	c.changes = append(c.changes, Change{c.kind, c.name, string(path), slices.Clone(before), slices.Clone(after), breaking})
}

// compare adds the differences at a place. A nil value is absent.
func (c *comparison) compare(place []string, before, after jsontext.Value) {
	switch {
	case before != nil && after != nil && before.Kind() == '{' && after.Kind() == '{':
		a, b := members(before), members(after)
		names := slices.Collect(maps.Keys(a))
		for name := range b {
			if _, both := a[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			c.compare(append(slices.Clone(place), name), a[name], b[name])
		}
	case !equal(before, after):
		c.add(place, before, after, c.breaks(place, before, after))
	}
}

func members(object jsontext.Value) map[string]jsontext.Value {
	all := make(map[string]jsontext.Value)
	_ = json.Unmarshal(object, &all) // it is valid JSON
	return all
}

// equal compares values without regard to spaces and the order of members.
func equal(a, b jsontext.Value) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	a, b = slices.Clone(a), slices.Clone(b)
	return a.Canonicalize() == nil && b.Canonicalize() == nil && string(a) == string(b)
}
