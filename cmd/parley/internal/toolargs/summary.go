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
	return summary(parseSchema(schema).arguments())
}

func summary(arguments []Argument) string {
	var all []string
	for _, a := range arguments {
		text := a.Name + "=" + a.Type
		if !a.Required {
			text = "[" + text + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// usage returns the arguments as the end of an error message.
func (n node) usage() string {
	if text := summary(n.arguments()); text != "" {
		return "the " + n.doc.noun + "s are " + text
	}
	return "there are no " + n.doc.noun + "s"
}

// placeholder returns the text after the equals sign: the allowed values or types.
func placeholder(n node, depth int) string {
	var choices []string
	if values, only := n.values(); only {
		choices = texts(values)
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
		return placeholder(n.element(0), depth-1) + "…"
	}
	return strings.Join(types, "|")
}
