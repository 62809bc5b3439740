package toolargs

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxChoices bounds the choices that are written out, in bytes.
const maxChoices = 32

// Summary shows how a tool's arguments are given: "city=string [days=integer]",
// optional ones in brackets. It may contain anything that a schema may.
func Summary(schema json.RawMessage) string {
	s := parseShape(schema)
	required := s.required()
	var all []string
	for _, name := range s.properties() {
		sub, _ := s.property(name)
		text := name + "=" + placeholder(sub, maxNested)
		if !slices.Contains(required, name) {
			text = "[" + text + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// takes is Summary as a half-sentence.
func takes(schema json.RawMessage) string {
	if summary := Summary(schema); summary != "" {
		return "it takes " + summary
	}
	return "it takes none"
}

// placeholder says what to write for a value.
func placeholder(s shape, nested int) string {
	var choices []string
	for _, v := range list(s.node["enum"]) {
		if text, ok := v.(string); ok {
			choices = append(choices, text)
		}
	}
	if text := strings.Join(choices, "|"); text != "" && len(text) <= maxChoices {
		return text
	}
	kinds := s.kinds()
	if i := slices.Index(kinds, "null"); i >= 0 && len(kinds) > 1 {
		kinds = slices.Delete(kinds, i, i+1)
	}
	switch {
	case len(kinds) == 0:
		return "any"
	case len(kinds) == 1 && kinds[0] == "array":
		if nested == 0 {
			return "array"
		}
		return placeholder(s.elements(), nested-1) + "…"
	}
	return strings.Join(kinds, "|")
}
