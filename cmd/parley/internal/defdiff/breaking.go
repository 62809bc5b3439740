package defdiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// breaks says why a change of a member breaks clients; empty if that is not certain.
func (c *comparison) breaks(place []string, before, after jsontext.Value) string {
	switch {
	case c.kind == Prompt && place[0] == "arguments":
		return breaksArgument(place, before, after)
	case c.kind != Tool:
		return ""
	case place[0] == "outputSchema":
		return breaksOutput(place, before, after)
	case place[0] == "inputSchema":
		return breaksInput(place, before, after)
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

// isCertain reports whether a schema at a place applies to every value: it is not part of an alternative, a condition or a
// negation.
func isCertain(place []string) bool {
	for i, name := range place {
		if slices.Contains([]string{"anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$defs", "definitions"}, name) && (i == 0 || place[i-1] != "properties") {
			return false
		}
	}
	return true
}

// isProperty reports whether a place is a property of an object schema.
func isProperty(place []string) bool {
	n := len(place)
	return n >= 3 && place[n-2] == "properties" && place[n-3] != "properties"
}

// isKeyword reports whether the last name of a place is a keyword and not the name of a property.
func isKeyword(place []string) bool { return place[len(place)-2] != "properties" }

// breaksInput is breaks for input schemas: the server accepts less than before.
func breaksInput(place []string, before, after jsontext.Value) string {
	if len(place) < 2 || !isCertain(place) {
		return ""
	}
	last := place[len(place)-1]
	if isProperty(place) {
		if after == nil {
			return fmt.Sprintf("the argument %s is removed", last)
		}
		return ""
	}
	if !isKeyword(place) {
		return ""
	}
	switch last {
	case "required":
		if more := without(textsOf(after), textsOf(before)); len(more) > 0 {
			return strings.Join(more, ", ") + " " + isOrAre(more) + " required now"
		}
	case "type":
		if less := lostTypes(textsOf(before), textsOf(after)); len(less) > 0 && after != nil {
			return "the type " + strings.Join(less, ", ") + " is not accepted anymore"
		}
	case "enum", "const":
		if after != nil && (before == nil || last == "const" || len(without(values(before), values(after))) > 0) {
			return "fewer values are accepted"
		}
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if after != nil && (before == nil || number(after) > number(before)) {
			return "the lower limit is higher"
		}
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if after != nil && (before == nil || number(after) < number(before)) {
			return "the upper limit is lower"
		}
	case "pattern", "uniqueItems":
		if before == nil && string(after) != "false" {
			return "fewer values are accepted"
		}
	case "additionalProperties":
		if string(after) == "false" {
			return "unknown arguments are rejected now"
		}
	}
	return ""
}

// breaksOutput is breaks for output schemas: results can be other than before.
func breaksOutput(place []string, before, after jsontext.Value) string {
	if len(place) == 1 {
		if after == nil {
			return "there is no structured content anymore"
		}
		return ""
	}
	if !isCertain(place) {
		return ""
	}
	last := place[len(place)-1]
	if isProperty(place) {
		if after == nil {
			return fmt.Sprintf("the member %s of the result is removed", last)
		}
		return ""
	}
	if !isKeyword(place) {
		return ""
	}
	switch last {
	case "required":
		if less := without(textsOf(before), textsOf(after)); len(less) > 0 {
			return strings.Join(less, ", ") + " can be missing now"
		}
	case "type":
		if more := lostTypes(textsOf(after), textsOf(before)); len(more) > 0 && before != nil || after == nil {
			return "results can have other types"
		}
	case "enum":
		if before != nil && (after == nil || len(without(values(after), values(before))) > 0) {
			return "results can have other values"
		}
	}
	return ""
}

func isOrAre(words []string) string {
	if len(words) == 1 {
		return "is"
	}
	return "are"
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
