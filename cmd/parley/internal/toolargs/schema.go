package toolargs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// shape is a JSON Schema, read leniently: the server validates; here it only
// matters what a word on a command line is meant as. What is not understood says
// nothing.
type shape struct {
	root any // what references are resolved in
	node map[string]any
	raw  json.RawMessage // of the root's shape only
}

const (
	maxRefs   = 16  // followed one after the other
	maxVisits = 256 // subschemas of anyOf and the like, which may refer to each other
	maxNested = 4   // arrays of arrays
)

func parseShape(schema json.RawMessage) shape {
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber()
	var root any
	_ = decoder.Decode(&root)
	s := shape{root: root}.at(root)
	s.raw = schema
	return s
}

// at returns the shape of a subschema, after following its reference.
func (s shape) at(v any) shape {
	node, _ := v.(map[string]any)
	for range maxRefs {
		ref, ok := node["$ref"].(string)
		if !ok {
			break
		}
		node, _ = s.lookup(ref).(map[string]any)
	}
	return shape{root: s.root, node: node}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookup resolves a reference into the same document.
func (s shape) lookup(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	v := s.root
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		node, _ := v.(map[string]any)
		v = node[unescape.Replace(name)]
	}
	return v
}

// kinds returns the JSON types that a value may have, in the order in which the
// schema names them; none if it does not say.
func (s shape) kinds() []string {
	visits := maxVisits
	return s.kindsWithin(&visits)
}

func (s shape) kindsWithin(visits *int) []string {
	if *visits--; *visits < 0 {
		return nil
	}
	var kinds []string
	add := func(more ...string) {
		for _, k := range more {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	switch t := s.node["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok {
				add(name)
			}
		}
		return kinds
	}
	if value, ok := s.node["const"]; ok {
		add(kindOf(value))
	}
	for _, value := range list(s.node["enum"]) {
		add(kindOf(value))
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		for _, sub := range list(s.node[keyword]) {
			add(s.at(sub).kindsWithin(visits)...)
		}
	}
	return kinds
}

// elements returns the shape of an array's elements.
func (s shape) elements() shape {
	if items, ok := s.node["items"]; ok {
		return s.at(items)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, sub := range list(s.node[keyword]) {
			if branch := s.at(sub); slices.Contains(branch.kinds(), "array") {
				return s.at(branch.node["items"])
			}
		}
	}
	return shape{}
}

// property returns the shape of a member; ok is false if there may be none of this name.
func (s shape) property(name string) (_ shape, ok bool) {
	properties, _ := s.node["properties"].(map[string]any)
	if sub, ok := properties[name]; ok {
		return s.at(sub), true
	}
	additional := s.node["additionalProperties"]
	return s.at(additional), additional != false
}

// properties returns the names of the members that the schema names, as it orders them.
func (s shape) properties() []string {
	var outer struct {
		Properties json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(s.raw, &outer)
	decoder := json.NewDecoder(bytes.NewReader(outer.Properties))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		var skipped json.RawMessage
		if err != nil || decoder.Decode(&skipped) != nil {
			return names
		}
		names = append(names, name.(string))
	}
	return names
}

func (s shape) required() []string {
	var names []string
	for _, v := range list(s.node["required"]) {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if isInteger(v.String()) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
