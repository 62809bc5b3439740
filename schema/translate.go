package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	failure "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// translation turns the library's tree of errors into issues about a document.
type translation struct {
	*document
	found []Issue
}

func (tr *translation) issues(cause *jsonschema.ValidationError) []Issue {
	tr.walk(cause)
	return tr.found
}

// walk visits the leaves of the tree.
func (tr *translation) walk(cause *jsonschema.ValidationError) {
	if len(tr.found) >= maxIssues {
		return
	}
	switch k := cause.ErrorKind.(type) {
	case *failure.OneOf:
		if len(k.Subschemas) > 1 {
			tr.note(cause, "exactly one alternative to fit")
			return
		}
		tr.alternatives(cause)
		return
	case *failure.AnyOf:
		tr.alternatives(cause)
		return
	case *failure.PropertyNames:
		tr.note(cause, "a valid member name", k.Property)
		return
	}
	if len(cause.Causes) == 0 {
		tr.leaf(cause)
		return
	}
	for _, c := range cause.Causes {
		tr.walk(c)
	}
}

// alternatives explains why none of several fits: by the mistakes in the only one
// of the right type if there is such a one, else by naming the choice.
func (tr *translation) alternatives(cause *jsonschema.ValidationError) {
	var types []string
	var others []*jsonschema.ValidationError
	for _, c := range cause.Causes {
		k, ok := c.ErrorKind.(*failure.Type)
		if !ok || len(c.InstanceLocation) != len(cause.InstanceLocation) {
			others = append(others, c)
			continue
		}
		for _, name := range k.Want {
			if !slices.Contains(types, name) {
				types = append(types, name)
			}
		}
	}
	switch len(others) {
	case 0:
		tr.note(cause, strings.Join(types, " or "))
	case 1:
		tr.walk(others[0])
	default:
		tr.note(cause, "one of "+count(len(cause.Causes), "alternative")+" to fit")
	}
}

func (tr *translation) leaf(cause *jsonschema.ValidationError) {
	switch k := cause.ErrorKind.(type) {
	case *failure.Type:
		tr.note(cause, strings.Join(k.Want, " or "))
	case *failure.Const:
		tr.note(cause, shown(k.Want))
	case *failure.Enum:
		values := make([]string, 0, maxListed+1)
		for _, v := range k.Want[:min(len(k.Want), maxListed+1)] {
			values = append(values, shown(v))
		}
		tr.note(cause, "one of "+list(values))
	case *failure.Required:
		tr.missing(cause, k.Missing)
	case *failure.DependentRequired:
		tr.missing(cause, k.Missing)
	case *failure.Dependency:
		tr.missing(cause, k.Missing)
	case *failure.AdditionalProperties:
		for _, name := range k.Properties[:min(len(k.Properties), maxIssues)] {
			tr.note(cause, "no member of this name", name)
		}
	case *failure.AdditionalItems:
		tr.note(cause, count(k.Count, "item")+" less")
	case *failure.MinProperties:
		tr.note(cause, "at least "+count(k.Want, "member"))
	case *failure.MaxProperties:
		tr.note(cause, "at most "+count(k.Want, "member"))
	case *failure.MinItems:
		tr.note(cause, "at least "+count(k.Want, "item"))
	case *failure.MaxItems:
		tr.note(cause, "at most "+count(k.Want, "item"))
	case *failure.MinContains:
		tr.note(cause, "at least "+count(k.Want, "item")+" of a certain form")
	case *failure.MaxContains:
		tr.note(cause, "at most "+count(k.Want, "item")+" of a certain form")
	case *failure.Contains:
		tr.note(cause, "an item of a certain form")
	case *failure.UniqueItems:
		tr.note(cause, "no item twice, as are items "+strconv.Itoa(k.Duplicates[0])+" and "+strconv.Itoa(k.Duplicates[1]))
	case *failure.MinLength:
		tr.note(cause, "at least "+count(k.Want, "character"))
	case *failure.MaxLength:
		tr.note(cause, "at most "+count(k.Want, "character"))
	case *failure.Pattern:
		tr.note(cause, "string matching "+quote(k.Want))
	case *failure.Format:
		tr.note(cause, "string of format "+quote(k.Want))
	case *failure.Minimum:
		tr.note(cause, "at least "+k.Want.RatString())
	case *failure.Maximum:
		tr.note(cause, "at most "+k.Want.RatString())
	case *failure.ExclusiveMinimum:
		tr.note(cause, "more than "+k.Want.RatString())
	case *failure.ExclusiveMaximum:
		tr.note(cause, "less than "+k.Want.RatString())
	case *failure.MultipleOf:
		tr.note(cause, "multiple of "+k.Want.RatString())
	case *failure.FalseSchema:
		tr.note(cause, "nothing here")
	case *failure.Not:
		tr.note(cause, "something that the schema does not exclude")
	default:
		tr.note(cause, "a value that fits "+strings.Join(cause.ErrorKind.KeywordPath(), "/"))
	}
}

func (tr *translation) missing(cause *jsonschema.ValidationError, names []string) {
	for _, name := range names {
		tr.add(cause, "a value", "nothing; it is required", name)
	}
}

// note records an issue about the place of cause, or about the member below it
// that is called name.
func (tr *translation) note(cause *jsonschema.ValidationError, expected string, name ...string) {
	at, ok := uint32(0), true
	for _, token := range slices.Concat(cause.InstanceLocation, name) {
		if at, ok = tr.child(at, token); !ok {
			break
		}
	}
	got := "something else"
	if ok {
		got = tr.describe(at)
	}
	tr.add(cause, expected, got, name...)
}

func (tr *translation) add(cause *jsonschema.ValidationError, expected, got string, name ...string) {
	if len(tr.found) >= maxIssues {
		return
	}
	var path []byte
	for _, token := range slices.Concat(cause.InstanceLocation, name) {
		path = appendPointer(path, truncate(token, maxPointer+1))
	}
	tr.found = append(tr.found, Issue{Path: cutPointer(path), Expected: truncate(expected, maxExpected), Got: got})
}

// maxExpected bounds what a schema's numbers can put into a message.
const maxExpected = 1024

// shown describes a value of the library's as document.show does.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		return truncate(v.String(), maxQuoted)
	case []any:
		return "array of " + count(len(v), "item")
	case map[string]any:
		return "object with " + count(len(v), "member")
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}
