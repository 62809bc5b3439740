package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/jsondiff"
)

// The kinds of definitions.
const (
	kindServer   = "server" // its instructions and capabilities
	kindTool     = "tool"
	kindPrompt   = "prompt"
	kindResource = "resource"
	kindTemplate = "resource template"
)

// definition is the definition of a tool, prompt, resource or resource template, or what a server says about itself.
type definition struct {
	Kind string
	Name string // or the URI, or the URI template; empty for the server
	JSON []byte
}

// change is one difference between definitions.
type change struct {
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

// compareDefinitions returns the differences of the definitions of two servers, or of one server at two times, in the
// order of kinds, names and paths. It knows which changes break clients. It fails if a definition is not valid.
func compareDefinitions(before, after []definition) ([]change, error) {
	type key struct{ kind, name string }
	old, now := make(map[key]jsontext.Value), make(map[key]jsontext.Value)
	for into, all := range map[*map[key]jsontext.Value][]definition{&old: before, &now: after} {
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
	order := []string{kindServer, kindTool, kindPrompt, kindResource, kindTemplate}
	sort.Slice(keys, func(i, j int) bool {
		a, b := keys[i], keys[j]
		return cmp.Or(slices.Index(order, a.kind)-slices.Index(order, b.kind), strings.Compare(a.name, b.name)) < 0
	})
	changes := []change{}
	for _, k := range keys {
		for _, c := range (&jsondiff.Comparison{WholeArrays: true}).Compare(old[k], now[k]) {
			changes = append(changes, change{k.kind, k.name, string(c.Path), c.A, c.B, breaks(k.kind, c)})
		}
	}
	return changes, nil
}

// normalized returns a definition whose arguments, if it is a prompt, are an object.
func normalized(d definition) (jsontext.Value, error) {
	members := make(map[string]jsontext.Value)
	if err := json.Unmarshal(d.JSON, &members); err != nil {
		return nil, err
	}
	if d.Kind != kindPrompt {
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

func members(object jsontext.Value) map[string]jsontext.Value {
	all := make(map[string]jsontext.Value)
	_ = json.Unmarshal(object, &all) // it is valid JSON
	return all
}

// breaks says why a change of a definition breaks clients; empty if that is not certain.
func breaks(kind string, c jsondiff.Change) string {
	place, before, after := slices.Collect(c.Path.Tokens()), c.A, c.B
	switch {
	case len(place) == 0 && after == nil:
		return "it is removed"
	case len(place) == 0:
		return ""
	case kind == kindPrompt && place[0] == "arguments":
		return breaksArgument(place, before, after)
	case kind == kindTool && (place[0] == "inputSchema" || place[0] == "outputSchema"):
		return breaksSchema(place, before, after)
	}
	return ""
}

// breaksArgument is breaks for the arguments of prompts.
func breaksArgument(place []string, before, after jsontext.Value) string {
	required := func(argument jsontext.Value) bool { return string(members(argument)["required"]) == "true" }
	switch {
	case len(place) == 2 && after == nil:
		return fmt.Sprintf("the argument %s is removed", place[1])
	case len(place) == 2 && required(after), len(place) == 3 && place[2] == "required" && string(after) == "true":
		return fmt.Sprintf("the argument %s is required now", place[1])
	}
	return ""
}

// isCertain reports whether a schema at a place applies to every value: it is not part of an alternative, a condition
// or a negation.
func isCertain(place []string) bool {
	for i, name := range place {
		if slices.Contains([]string{"anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$defs",
			"definitions"}, name) && (i == 0 || place[i-1] != "properties") {
			return false
		}
	}
	return true
}

// breaksSchema is breaks for the schemas of a tool: the server accepts less than before, or results can be other than
// before.
func breaksSchema(place []string, before, after jsontext.Value) string {
	input, n := place[0] == "inputSchema", len(place)
	if n == 1 && !input && after == nil {
		return "there is no structured content anymore"
	}
	if n == 1 || !isCertain(place) {
		return ""
	}
	last := place[n-1]
	switch isProperty := place[n-2] == "properties"; {
	case isProperty && (after != nil || place[n-3] == "properties"): // or a keyword of a property of this name
		return ""
	case isProperty && input:
		return fmt.Sprintf("the argument %s is removed", last)
	case isProperty:
		return fmt.Sprintf("the member %s of the result is removed", last)
	case input:
		return narrower(last, before, after)
	case narrower(last, after, before) == "":
		return ""
	case last == "required":
		return strings.Join(without(textsOf(before), textsOf(after)), ", ") + " can be missing now"
	}
	return map[string]string{"type": "results can have other types", "enum": "results can have other values"}[last]
}

// narrower says why a keyword accepts less with the value to than with the value from; empty if it does not.
func narrower(keyword string, from, to jsontext.Value) string {
	isNew := from == nil
	switch keyword {
	case "required":
		switch more := without(textsOf(to), textsOf(from)); len(more) {
		case 0:
		case 1:
			return more[0] + " is required now"
		default:
			return strings.Join(more, ", ") + " are required now"
		}
	case "type":
		if to != nil && (isNew || len(lostTypes(textsOf(from), textsOf(to))) > 0) {
			return "fewer types are accepted"
		}
	case "enum", "const":
		if to != nil && (isNew || keyword == "const" || len(without(values(from), values(to))) > 0) {
			return "fewer values are accepted"
		}
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if to != nil && (isNew || number(to) > number(from)) {
			return "the lower limit is higher"
		}
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if to != nil && (isNew || number(to) < number(from)) {
			return "the upper limit is lower"
		}
	case "pattern", "uniqueItems":
		if isNew && string(to) != "false" {
			return "fewer values are accepted"
		}
	case "additionalProperties":
		if string(to) == "false" {
			return "unknown arguments are rejected now"
		}
	}
	return ""
}

// textsOf returns the strings in an array, or a string alone.
func textsOf(v jsontext.Value) []string {
	var one string
	var all []string
	if json.Unmarshal(v, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(v, &all) // other values are not strings
	return all
}

// values returns the texts of the elements of an array, in canonical form.
func values(v jsontext.Value) []string {
	var elements []jsontext.Value
	if json.Unmarshal(v, &elements) != nil {
		return nil
	}
	var all []string
	for _, e := range elements {
		_ = e.Canonicalize() // it is valid JSON
		all = append(all, string(e))
	}
	return all
}

// without returns the elements of all that are not in others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
}

// lostTypes returns the types before that are not among those after. Numbers include integers.
func lostTypes(before, after []string) []string {
	if slices.Contains(after, "number") {
		after = append(slices.Clone(after), "integer")
	}
	return without(before, after)
}

func number(v jsontext.Value) float64 {
	var n float64
	_ = json.Unmarshal(v, &n) // it is a number in every valid schema
	return n
}

// parseListing returns the definitions in the output of parley ls with the format JSON.
func parseListing(raw []byte) (all []definition, err error) {
	var listing struct {
		Server    map[string]jsontext.Value `json:"server"`
		Tools     []jsontext.Value          `json:"tools"`
		Prompts   []jsontext.Value          `json:"prompts"`
		Resources []jsontext.Value          `json:"resources"`
		Templates []jsontext.Value          `json:"resourceTemplates"`
	}
	if err := json.Unmarshal(raw, &listing); err != nil {
		return nil, fmt.Errorf("not the JSON output of parley ls: %w", err)
	}
	if listing.Server == nil {
		return nil, fmt.Errorf("not the JSON output of parley ls: it has no member %q", "server")
	}
	about := make(map[string]jsontext.Value)
	for _, name := range []string{"instructions", "capabilities"} {
		if value := listing.Server[name]; value != nil {
			about[name] = value
		}
	}
	encoded, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	all = append(all, definition{Kind: kindServer, JSON: encoded})
	for _, list := range []struct {
		kind, key string
		entries   []jsontext.Value
	}{
		{kindTool, "name", listing.Tools}, {kindPrompt, "name", listing.Prompts},
		{kindResource, "uri", listing.Resources},
		{kindTemplate, "uriTemplate", listing.Templates},
	} {
		for _, entry := range list.entries {
			members := make(map[string]jsontext.Value)
			var name string
			if err := json.Unmarshal(entry, &members); err != nil {
				return nil, fmt.Errorf("%s: %w", list.kind, err)
			}
			if err := json.Unmarshal(members[list.key], &name); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", list.kind, list.key, err)
			}
			all = append(all, definition{list.kind, name, entry})
		}
	}
	return all, nil
}
