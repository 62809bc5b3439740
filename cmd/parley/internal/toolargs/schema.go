package toolargs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
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

func parseSchema(document json.RawMessage) node {
	var root any
	_ = schema.Decode(document, &root)
	n := node{root: root}.child(root)
	n.raw = document
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
	properties, _ := jsonrpc.Get(n.raw, "properties")
	if len(properties) == 0 || properties[0] != '{' {
		return nil
	}
	var names []string
	for name := range jsonrpc.All(properties) {
		names = append(names, name)
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
	case float64:
		if v == math.Trunc(v) {
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
