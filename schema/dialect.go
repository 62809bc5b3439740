package schema

import "strings"

// dialect is a draft of JSON Schema, in the order of their appearance.
type dialect int

const (
	draft4 dialect = iota
	draft6
	draft7
	draft2019
	draft2020
)

// dialectOf returns the draft that a $schema names. Either scheme will do, and an
// empty fragment.
func dialectOf(uri string) (dialect, error) {
	name, ok := strings.CutPrefix(strings.TrimSuffix(uri, "#"), "http://json-schema.org/")
	if !ok {
		name, ok = strings.CutPrefix(strings.TrimSuffix(uri, "#"), "https://json-schema.org/")
	}
	if !ok {
		return 0, &DialectError{Dialect: uri}
	}
	switch name {
	case "schema", "draft/2020-12/schema":
		return draft2020, nil
	case "draft/2019-09/schema":
		return draft2019, nil
	case "draft-07/schema":
		return draft7, nil
	case "draft-06/schema":
		return draft6, nil
	case "draft-04/schema":
		return draft4, nil
	}
	return 0, &DialectError{Dialect: uri}
}

// holds says where in a keyword's value there are subschemas.
type holds uint8

const (
	holdsNothing  holds = iota
	holdsSchema         // the value is a schema
	holdsList           // an array of schemas
	holdsEither         // a schema or an array of schemas
	holdsMap            // an object of schemas by name
	holdsMapAlias       // the same, where arrays stand for something else
	holdsData           // any JSON, never a schema
	holdsUnknown        // no keyword of any draft
)

// keywordHolds knows the keywords of every draft together: to count a subschema
// too many does no harm.
func keywordHolds(keyword string) holds {
	switch keyword {
	case "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not",
		"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties":
		return holdsSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return holdsList
	case "items":
		return holdsEither
	case "$defs", "definitions", "dependentSchemas", "patternProperties", "properties":
		return holdsMap
	case "dependencies":
		return holdsMapAlias
	case "const", "default", "enum", "examples":
		return holdsData
	case "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
		"$ref", "$schema", "$vocabulary", "contentEncoding", "contentMediaType", "dependentRequired", "deprecated",
		"description", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "maxContains", "maxItems",
		"maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties",
		"minimum", "multipleOf", "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly":
		return holdsNothing
	}
	return holdsUnknown
}

// subschemas calls visit for each subschema that a keyword holds, with the number
// of bytes that it adds to the path below the keyword.
func (d *document) subschemas(keyword string, at uint32, visit func(sub uint32, length int)) {
	t := &d.Tokens[at]
	const schemas = kindObject | kindBoolean
	h := keywordHolds(keyword)
	switch {
	case (h == holdsSchema || h == holdsEither) && t.Kind&schemas != 0:
		visit(at, 0)
	case (h == holdsList || h == holdsEither) && t.Kind == kindArray:
		for i := at + 1; i < t.Next; i = d.Tokens[i].Next {
			visit(i, len("/000"))
		}
	case (h == holdsMap || h == holdsMapAlias) && t.Kind == kindObject:
		for i := at + 1; i < t.Next; i = d.Tokens[i+1].Next {
			if d.Tokens[i+1].Kind&schemas != 0 {
				visit(i+1, len("/")+int(d.Tokens[i].End-d.Tokens[i].Start))
			}
		}
	}
}
