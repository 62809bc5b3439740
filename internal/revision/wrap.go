package revision

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Until 2025-11-25 structured content was an object. Other values are sent in an object with a single key, as the
// SDKs for Python and TypeScript do.
const wrapper = "result"

// WrapValue returns an object with the value under its only key.
func WrapValue(value json.RawMessage) json.RawMessage {
	out := append(make(json.RawMessage, 0, len(value)+len(wrapper)+5), `{"`+wrapper+`":`...)
	return append(append(out, value...), '}')
}

// UnwrapValue undoes WrapValue, and reports whether object has exactly that form.
func UnwrapValue(object json.RawMessage) (value json.RawMessage, ok bool) {
	if !isObject(object) {
		return nil, false
	}
	for name, v := range jsonrpc.All(object) {
		if name != wrapper || ok {
			return nil, false
		}
		value, ok = v, true
	}
	return value, ok
}

// wrapSchema returns the schema of the values that WrapValue returns for the values of schema. It returns nil if
// objects or null may match the schema, because these are not wrapped, or if the schema contains references whose
// meaning would change.
func wrapSchema(schema json.RawMessage) json.RawMessage {
	if !alwaysWrapped(schema) || !canBeWrapped(schema) {
		return nil
	}
	out := json.RawMessage(`{`)
	for _, name := range rootKeywords {
		if value, ok := jsonrpc.Get(schema, name); ok {
			out = append(append(append(jsonrpc.AppendString(out, name), ':'), value...), ',')
		}
	}
	out = append(out, `"type":"object","properties":{"`+wrapper+`":`...)
	out = append(out, jsonrpc.Without(schema, rootKeywords...)...)
	return append(out, `},"required":["`+wrapper+`"]}`...)
}

// rootKeywords stay at the root of a schema: the dialect, and the targets of references.
var rootKeywords = []string{"$schema", "$defs", "definitions"}

// alwaysWrapped reports whether the type of a schema allows neither an object nor null.
func alwaysWrapped(schema json.RawMessage) bool {
	kinds, ok := jsonrpc.Get(schema, "type")
	switch {
	case !ok:
		return false
	case kinds[0] == '"':
		return !slices.Contains(unwrapped, jsonrpc.Unquote(kinds))
	case kinds[0] != '[':
		return false
	}
	for kind := range jsonscan.Elements(kinds) {
		if slices.Contains(unwrapped, jsonrpc.Unquote(kind)) {
			return false
		}
	}
	return true
}

// unwrapped lists the types of values that are not wrapped: null often means that there is no structured
// content.
var unwrapped = []string{"object", "null"}

// canBeWrapped reports whether all references within a schema point to its definitions.
func canBeWrapped(schema json.RawMessage) bool {
	if _, ok := jsonrpc.Get(schema, "$id"); ok {
		return false
	}
	return !bytes.Contains(schema, []byte(`ef"`)) || refersToDefinitions(schema) // $ref, $dynamicRef
}

func refersToDefinitions(value json.RawMessage) bool {
	switch value[0] {
	case '{':
		for name, v := range jsonrpc.All(value) {
			to := jsonrpc.Unquote(v)
			if (name == "$ref" || name == "$dynamicRef") && strings.HasPrefix(to, "#") &&
				!strings.HasPrefix(to, "#/$defs/") && !strings.HasPrefix(to, "#/definitions/") {
				return false
			}
			if !refersToDefinitions(v) {
				return false
			}
		}
	case '[':
		for v := range jsonscan.Elements(value) {
			if !refersToDefinitions(v) {
				return false
			}
		}
	}
	return true
}
