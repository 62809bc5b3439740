package toolargs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// node is one schema or subschema of a tool's input schema. It is read leniently, because
// the server validates the arguments: only the types are of interest here, and keywords
// that are not understood are ignored.
type node struct {
	root     any             // the document in which references are resolved
	keywords map[string]any  // nil for true, false and invalid schemas
	raw      json.RawMessage // the document's bytes, in the root node only
}

const (
	maxRefs       = 16  // references followed one after the other
	maxSubschemas = 256 // subschemas of anyOf, oneOf and allOf, which can be recursive
	maxDepth      = 4   // arrays of arrays
)

func parseSchema(schema json.RawMessage) node {
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber()
	var root any
	_ = decoder.Decode(&root)
	n := node{root: root}.child(root)
	n.raw = schema
	return n
}

// child returns the node of the subschema v, after following its reference.
func (n node) child(v any) node {
	keywords, _ := v.(map[string]any)
	for range maxRefs {
		ref, ok := keywords["$ref"].(string)
		if !ok {
			break
		}
		keywords, _ = n.lookup(ref).(map[string]any)
	}
	return node{root: n.root, keywords: keywords}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookup resolves a reference within the document, or returns nil.
func (n node) lookup(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	v := n.root
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		object, _ := v.(map[string]any)
		v = object[unescape.Replace(name)]
	}
	return v
}

// types returns the JSON types that the schema allows, in the order in which the schema
// names them. It returns none if the schema does not restrict the type.
func (n node) types() []string {
	limit := maxSubschemas
	return n.typesWithin(&limit)
}

func (n node) typesWithin(limit *int) []string {
	if *limit--; *limit < 0 {
		return nil
	}
	var types []string
	add := func(more ...string) {
		for _, t := range more {
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	switch t := n.keywords["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok {
				add(name)
			}
		}
		return types
	}
	if value, ok := n.keywords["const"]; ok {
		add(typeOf(value))
	}
	for _, value := range list(n.keywords["enum"]) {
		add(typeOf(value))
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		for _, sub := range list(n.keywords[keyword]) {
			add(n.child(sub).typesWithin(limit)...)
		}
	}
	return types
}

// elements returns the node of an array's elements.
func (n node) elements() node {
	if items, ok := n.keywords["items"]; ok {
		return n.child(items)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, sub := range list(n.keywords[keyword]) {
			if branch := n.child(sub); slices.Contains(branch.types(), "array") {
				return n.child(branch.keywords["items"])
			}
		}
	}
	return node{}
}

// property returns the node of the property called name. ok is false if the schema does
// not allow a property of that name.
func (n node) property(name string) (_ node, ok bool) {
	properties, _ := n.keywords["properties"].(map[string]any)
	if sub, ok := properties[name]; ok {
		return n.child(sub), true
	}
	additional := n.keywords["additionalProperties"]
	return n.child(additional), additional != false
}

// properties returns the names of the properties in the order of the schema.
func (n node) properties() []string {
	var outer struct {
		Properties json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(n.raw, &outer)
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

func (n node) required() []string {
	var names []string
	for _, v := range list(n.keywords["required"]) {
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

func typeOf(v any) string {
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
