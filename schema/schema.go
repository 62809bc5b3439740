package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// limits bounds the work that a schema can cause. A field that is zero or less
// means its default. Instances are bounded, too: 128 levels and a million values.
type limits struct {
	// MaxSubschemas bounds the subschemas of one document. The default is 10,000.
	MaxSubschemas int
	// MaxDepth bounds the nesting of subschemas. The default is 64.
	MaxDepth int
	// MaxRegexp bounds the length of a regular expression, in bytes. The default is 4 KiB.
	MaxRegexp int
	// MaxTime bounds one validation. The default is 100 milliseconds.
	MaxTime time.Duration
}

func (l limits) withDefaults() limits {
	if l.MaxSubschemas <= 0 {
		l.MaxSubschemas = 10_000
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = 64
	}
	if l.MaxRegexp <= 0 {
		l.MaxRegexp = 4 << 10
	}
	if l.MaxTime <= 0 {
		l.MaxTime = 100 * time.Millisecond
	}
	return l
}

// Schema is a compiled JSON Schema. It is immutable and safe for concurrent use.
type Schema struct {
	raw       json.RawMessage
	limits    limits
	object    bool
	program   *node
	unchecked []Unchecked
	memory    int64                  // in bytes, estimated
	budget    atomic.Pointer[Budget] // budget that the memory counts towards; nil: none
	target    atomic.Pointer[target] // type of the first Decode
}

// Unchecked is a keyword of a schema that [Schema.Validate] ignores because it cannot check it, such as a regular
// expression whose syntax Go does not support.
type Unchecked struct {
	// Pointer is the JSON Pointer of the keyword's value in the schema, cut at about
	// 1 KiB.
	Pointer string
	// Reason says why the keyword cannot be checked.
	Reason string
}

// Compile compiles a schema document. The document may
// be of draft 4, 6, 7, 2019-09 or 2020-12; without $schema it is of 2020-12.
//
// Compile never fetches anything: references lead to places in the document. A
// keyword that cannot be checked is no error; see [Schema.Unchecked].
//
// The error is a [*RefError], a [*ValidationError] if raw is not strict JSON, an [ErrLimit] if the
// document exceeds a bound, or says what the schema must be. An unknown dialect is an error, too.
func Compile(raw []byte) (*Schema, error) { return limits{}.Compile(raw) }

// Compile compiles a schema, as the function Compile does, with these limits.
func (l limits) Compile(raw []byte) (*Schema, error) {
	s, _, err := l.compile(raw)
	return s, err
}

// compile also returns the compiler, which can find the nodes of the program by
// their position in the document.
func (l limits) compile(raw []byte) (*Schema, *compiler, error) {
	return l.compileWithin(raw, &quota{what: limitMemory, most: maxPatternMemory})
}

// compileWithin does what compile does, with a quota for the memory of regular expressions.
func (l limits) compileWithin(raw []byte, memory *quota) (*Schema, *compiler, error) {
	l = l.withDefaults()
	s := &Schema{raw: slices.Clone(json.RawMessage(raw)), limits: l}
	d := &document{}
	if err := d.scan(s.raw); err != nil {
		return nil, nil, err
	}
	if d.Tokens[0].Kind == kindObject {
		if at, ok := d.member(0, "type"); ok {
			s.object = d.Tokens[at].Kind == kindString && d.Text(at) == "object"
		}
	}
	x, err := newIndex(d, l, memory)
	if err != nil {
		return nil, nil, err
	}
	c := &compiler{index: x}
	if s.program, err = c.compile(); err != nil {
		return nil, nil, err
	}
	s.unchecked = c.unchecked
	s.measure(x)
	return s, c, checkCycles(s.program)
}

// JSON returns the schema document: the bytes that were compiled, or for an
// inferred schema always the same bytes, with properties in the order of the
// fields. The caller must not modify them.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// IsObject reports whether the root of the schema has "type": "object", as the
// input schema of a tool must.
func (s *Schema) IsObject() bool { return s.object }

// Unchecked returns the keywords that Validate ignores because it cannot check
// them, in the order of the document: the first 100 of them. The caller owns the result.
func (s *Schema) Unchecked() []Unchecked { return slices.Clone(s.unchecked) }

// Validate checks one JSON value against the schema. It returns nil, a [*ValidationError], or an error that matches
// [ErrLimit] if the instance exceeds a bound or the check takes too long. It keeps nothing of raw, and is safe for
// concurrent use.
//
// Input that is not strict JSON (UTF-8, no duplicate keys, nothing after the value) is a ValidationError. "format" is
// an annotation in every draft.
func (s *Schema) Validate(raw []byte) error {
	r := newRun(s.limits.MaxTime)
	err := r.validate(s.program, raw)
	r.release()
	return err
}

// draft is a draft of JSON Schema. Later drafts are greater.
type draft uint8

const (
	draft4 draft = iota
	draft6
	draft7
	draft2019
	draft2020
)

// draftOf returns the draft that a $schema names. The scheme may be http or https, and the fragment may be
// empty.
func draftOf(uri string) (draft, error) {
	name, ok := strings.CutPrefix(strings.TrimSuffix(uri, "#"), "http://json-schema.org/")
	if !ok {
		name, ok = strings.CutPrefix(strings.TrimSuffix(uri, "#"), "https://json-schema.org/")
	}
	switch {
	case !ok:
	case name == "draft/2020-12/schema", name == "schema":
		return draft2020, nil
	case name == "draft/2019-09/schema":
		return draft2019, nil
	case name == "draft-07/schema":
		return draft7, nil
	case name == "draft-06/schema":
		return draft6, nil
	case name == "draft-04/schema":
		return draft4, nil
	}
	return 0, &dialectError{Dialect: uri}
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
}

// keywordNamed returns the keyword of any draft that is called name.
func keywordNamed(name string) keyword {
	switch name {
	case "allOf", "anyOf", "oneOf":
		return keyword{schemaList, draft4, draft2020}
	case "not", "additionalProperties":
		return keyword{oneSchema, draft4, draft2020}
	case "properties", "patternProperties":
		return keyword{schemaMap, draft4, draft2020}
	case "items":
		return keyword{schemaOrList, draft4, draft2020}
	case "additionalItems":
		return keyword{oneSchema, draft4, draft2019}
	case "dependencies":
		return keyword{schemaOrNamesMap, draft4, draft2020}
	case "contains", "propertyNames":
		return keyword{oneSchema, draft6, draft2020}
	case "if", "then", "else":
		return keyword{oneSchema, draft7, draft2020}
	case "dependentSchemas":
		return keyword{schemaMap, draft2019, draft2020}
	case "prefixItems":
		return keyword{schemaList, draft2020, draft2020}
	case "unevaluatedItems", "unevaluatedProperties":
		return keyword{oneSchema, draft2019, draft2020}
	case "contentSchema":
		return keyword{oneSchema, draft2019, draft2020}
	case "definitions":
		return keyword{schemaMap, draft4, draft2020}
	case "$defs":
		return keyword{schemaMap, draft2019, draft2020}
	case "enum":
		return keyword{isData, draft4, draft2020}
	case "const":
		return keyword{isData, draft6, draft2020}
	case "default":
		return keyword{isData, draft4, draft2020}
	case "examples":
		return keyword{isData, draft6, draft2020}
	case "type", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
		"pattern",
		"maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required":
		return keyword{noSchema, draft4, draft2020}
	case "maxContains", "minContains", "dependentRequired":
		return keyword{noSchema, draft2019, draft2020}
	case "$schema", "$ref", "title", "description", "format":
		return keyword{noSchema, draft4, draft2020}
	case "id":
		return keyword{noSchema, draft4, draft4}
	case "$id":
		return keyword{noSchema, draft6, draft2020}
	case "$comment", "contentEncoding", "contentMediaType", "readOnly", "writeOnly":
		return keyword{noSchema, draft7, draft2020}
	case "$anchor", "$vocabulary", "deprecated":
		return keyword{noSchema, draft2019, draft2020}
	case "$recursiveRef", "$recursiveAnchor": // draft 2020-12 only restricts their values
		return keyword{noSchema, draft2019, draft2020}
	case "$dynamicRef", "$dynamicAnchor":
		return keyword{noSchema, draft2020, draft2020}
	}
	return keyword{content: isUnknown}
}

// keyword returns the keyword called name. If the draft does not define it,
// its value contains no subschemas.
func (d draft) keyword(name string) keyword {
	k := keywordNamed(name)
	if d < k.since || d > k.until {
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
