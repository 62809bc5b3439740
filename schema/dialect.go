package schema

import "strings"

// draft is a draft of JSON Schema, in the order of their appearance.
type draft uint8

const (
	draft4 draft = iota
	draft6
	draft7
	draft2019
	draft2020
)

// dialect is the set of keywords of a schema resource.
type dialect struct {
	draft draft
	// disabled are vocabularies whose keywords have no meaning. A meta-schema that
	// is not official can disable them.
	disabled vocabulary
	// assertFormat makes "format" an assertion. It always is one up to draft 7.
	assertFormat bool
}

func (d dialect) assertsFormat() bool { return d.draft <= draft7 || d.assertFormat }

// vocabulary is a set of the vocabularies of draft 2019-09 and later.
type vocabulary uint8

const (
	applicators vocabulary = 1 << iota
	unevaluated
	validation
)

// dialectOf returns the dialect that a $schema names. Either scheme will do, and
// an empty fragment.
func dialectOf(uri string) (dialect, error) {
	switch name, ok := metaschemaName(strings.TrimSuffix(uri, "#")); {
	case !ok:
	case name == "draft/2020-12/schema":
		return dialect{draft: draft2020}, nil
	case name == "draft/2019-09/schema":
		return dialect{draft: draft2019}, nil
	case name == "draft-07/schema":
		return dialect{draft: draft7}, nil
	case name == "draft-06/schema":
		return dialect{draft: draft6}, nil
	case name == "draft-04/schema":
		return dialect{draft: draft4}, nil
	}
	return dialect{}, &DialectError{Dialect: uri}
}

// vocabularyURI is the beginning of the URIs that identify the vocabularies of a
// draft.
func (d draft) vocabularyURI() string {
	if d == draft2019 {
		return "https://json-schema.org/draft/2019-09/vocab/"
	}
	return "https://json-schema.org/draft/2020-12/vocab/"
}

// vocabularyNamed returns the vocabulary that a draft calls name, if its keywords
// can be disabled.
func (d draft) vocabularyNamed(name string) vocabulary {
	switch name {
	case "applicator":
		if d == draft2019 {
			return applicators | unevaluated
		}
		return applicators
	case "unevaluated":
		return unevaluated
	case "validation":
		return validation
	}
	return 0
}

// content describes where the value of a keyword contains subschemas.
type content uint8

const (
	noSchema         content = iota
	oneSchema                // the value is a schema
	schemaList               // an array of schemas
	schemaOrList             // a schema or an array of schemas
	schemaMap                // an object of schemas by name
	schemaOrNamesMap         // an object of schemas and arrays of strings by name
	isData                   // any JSON, never a schema
	isUnknown                // not a keyword
)

// keyword describes a keyword.
type keyword struct {
	content      content
	since, until draft
	vocabulary   vocabulary // 0 if it cannot be disabled
}

// keywordNamed returns the keyword of any draft that is called name.
func keywordNamed(name string) keyword {
	switch name {
	case "allOf", "anyOf", "oneOf":
		return keyword{schemaList, draft4, draft2020, applicators}
	case "not", "additionalProperties":
		return keyword{oneSchema, draft4, draft2020, applicators}
	case "properties", "patternProperties":
		return keyword{schemaMap, draft4, draft2020, applicators}
	case "items":
		return keyword{schemaOrList, draft4, draft2020, applicators}
	case "additionalItems":
		return keyword{oneSchema, draft4, draft2019, applicators}
	case "dependencies":
		return keyword{schemaOrNamesMap, draft4, draft2020, applicators}
	case "contains", "propertyNames":
		return keyword{oneSchema, draft6, draft2020, applicators}
	case "if", "then", "else":
		return keyword{oneSchema, draft7, draft2020, applicators}
	case "dependentSchemas":
		return keyword{schemaMap, draft2019, draft2020, applicators}
	case "prefixItems":
		return keyword{schemaList, draft2020, draft2020, applicators}
	case "unevaluatedItems", "unevaluatedProperties":
		return keyword{oneSchema, draft2019, draft2020, unevaluated}
	case "contentSchema":
		return keyword{oneSchema, draft2019, draft2020, 0}
	case "definitions":
		return keyword{schemaMap, draft4, draft2020, 0}
	case "$defs":
		return keyword{schemaMap, draft2019, draft2020, 0}
	case "enum":
		return keyword{isData, draft4, draft2020, validation}
	case "const":
		return keyword{isData, draft6, draft2020, validation}
	case "default":
		return keyword{isData, draft4, draft2020, 0}
	case "examples":
		return keyword{isData, draft6, draft2020, 0}
	case "type", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern",
		"maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required":
		return keyword{noSchema, draft4, draft2020, validation}
	case "maxContains", "minContains", "dependentRequired":
		return keyword{noSchema, draft2019, draft2020, validation}
	case "$schema", "$ref", "title", "description", "format":
		return keyword{noSchema, draft4, draft2020, 0}
	case "id":
		return keyword{noSchema, draft4, draft4, 0}
	case "$id":
		return keyword{noSchema, draft6, draft2020, 0}
	case "$comment", "contentEncoding", "contentMediaType", "readOnly", "writeOnly":
		return keyword{noSchema, draft7, draft2020, 0}
	case "$anchor", "$vocabulary", "deprecated":
		return keyword{noSchema, draft2019, draft2020, 0}
	case "$recursiveRef", "$recursiveAnchor": // draft 2020-12 only restricts their values
		return keyword{noSchema, draft2019, draft2020, 0}
	case "$dynamicRef", "$dynamicAnchor":
		return keyword{noSchema, draft2020, draft2020, 0}
	}
	return keyword{content: isUnknown}
}

// keyword returns the keyword called name. In a dialect that does not have it,
// its value contains no subschemas.
func (d dialect) keyword(name string) keyword {
	k := keywordNamed(name)
	if d.draft < k.since || d.draft > k.until || d.disabled&k.vocabulary != 0 {
		return keyword{content: isUnknown}
	}
	return k
}

// subschemas calls walk for each subschema in the value of a keyword.
func (d *document) subschemas(h content, at uint32, walk func(sub uint32)) {
	t := &d.Tokens[at]
	const schemas = kindObject | kindBoolean
	switch {
	case (h == oneSchema || h == schemaOrList) && t.Kind&schemas != 0:
		walk(at)
	case (h == schemaList || h == schemaOrList) && t.Kind == kindArray:
		for i := at + 1; i < t.Next; i = d.Tokens[i].Next {
			walk(i)
		}
	case (h == schemaMap || h == schemaOrNamesMap) && t.Kind == kindObject:
		for i := at + 1; i < t.Next; i = d.Tokens[i+1].Next {
			if d.Tokens[i+1].Kind&schemas != 0 {
				walk(i + 1)
			}
		}
	}
}
