package toolargs

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxChoices is the maximum length in bytes of the values of an enum in a summary.
const maxChoices = 32

// Summary returns the arguments of a tool in the notation of the command line, with
// optional arguments in brackets: "city=string [days=integer]". The text contains names
// from the schema, so sanitise it before printing it.
func Summary(schema json.RawMessage) string {
	n := parseSchema(schema)
	required := n.required()
	var all []string
	for _, name := range n.properties() {
		sub, _ := n.property(name)
		text := name + "=" + placeholder(sub, maxDepth)
		if !slices.Contains(required, name) {
			text = "[" + text + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// usage returns the arguments as the end of an error message.
func usage(schema json.RawMessage) string {
	if summary := Summary(schema); summary != "" {
		return "the arguments are " + summary
	}
	return "there are no arguments"
}

// placeholder returns the text after the equals sign: the allowed values or types.
func placeholder(n node, depth int) string {
	var choices []string
	for _, v := range list(n.keywords["enum"]) {
		if text, ok := v.(string); ok {
			choices = append(choices, text)
		}
	}
	if text := strings.Join(choices, "|"); text != "" && len(text) <= maxChoices {
		return text
	}
	types := n.types()
	if i := slices.Index(types, "null"); i >= 0 && len(types) > 1 {
		types = slices.Delete(types, i, i+1)
	}
	switch {
	case len(types) == 0:
		return "any"
	case len(types) == 1 && types[0] == "array":
		if depth == 0 {
			return "array"
		}
		return placeholder(n.elements(), depth-1) + "…"
	}
	return strings.Join(types, "|")
}
