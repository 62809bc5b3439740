package schema

import (
	"encoding/json"
	"time"
)

// Limits bounds what a schema may ask for. A field that is zero or less takes its
// default. The instance is bounded too: 128 levels and a million values.
type Limits struct {
	// MaxSubschemas bounds the subschemas of one document. The default is 10,000.
	MaxSubschemas int
	// MaxDepth bounds how deep subschemas nest. The default is 64.
	MaxDepth int
	// MaxRegexp bounds the length of a regular expression, in bytes. The default is 4 KiB.
	MaxRegexp int
	// MaxTime bounds one validation. The default is 100 milliseconds.
	MaxTime time.Duration
}

func (l Limits) withDefaults() Limits {
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
	raw     json.RawMessage
	limits  Limits
	object  bool
	program *node    // the fast path, or nil
	library *library // the fallback, if program is nil
}

// Compile compiles a schema document of any draft; without $schema it is
// 2020-12. The default [Limits] hold.
//
// Nothing is ever fetched: references lead to places in the document, or to the
// meta schemas of the drafts.
//
// The error is a [*DialectError], [*RefError], [*LimitError],
// [*InvalidSchemaError], or a [*ValidationError] if raw is not strict JSON.
func Compile(raw []byte) (*Schema, error) { return Limits{}.Compile(raw) }

// Compile is [Compile] with other limits.
func (l Limits) Compile(raw []byte) (*Schema, error) {
	s, _, err := l.compile(raw)
	return s, err
}

// compile also returns the nodes of the program by their place in the document.
func (l Limits) compile(raw []byte) (*Schema, func(pointer string) *node, error) {
	l = l.withDefaults()
	s := &Schema{raw: append(json.RawMessage(nil), raw...), limits: l}
	d := &document{}
	if err := d.scan(s.raw); err != nil {
		return nil, nil, err
	}
	if k := d.Tokens[0].Kind; k != kindObject && k != kindBoolean {
		return nil, nil, &InvalidSchemaError{Reason: "a schema is an object, true or false, not " + d.describe(0)}
	}
	found, err := surveyOf(d, l)
	if err != nil {
		return nil, nil, err
	}
	if at, ok := d.member(0, "type"); ok && d.Tokens[0].Kind == kindObject {
		s.object = d.Tokens[at].Kind == kindString && d.text(at) == "object"
	}
	c := &compiler{survey: found, nodes: make(map[uint32]*node, found.count)}
	if s.program, err = c.compile(); err == nil {
		find := func(pointer string) *node {
			at, _ := d.at(pointer)
			return c.nodes[at]
		}
		return s, find, checkLoops(s.program)
	}
	s.program = nil
	s.library, err = newLibrary(found)
	return s, nil, err
}

// JSON returns the schema document: the very bytes that were compiled, or for an
// inferred schema always the same ones, with properties in the order of the
// fields. They belong to the Schema and must not be modified.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// IsObject reports whether the schema says "type": "object" at its root, as the
// input schema of a tool must.
func (s *Schema) IsObject() bool { return s.object }

// Validate checks one JSON value against the schema. It returns nil, a
// [*ValidationError], or a [*LimitError] if the instance exceeds a bound or the
// check takes too long. It keeps nothing of raw, and is safe for concurrent use.
//
// Input that is not strict JSON (UTF-8, no duplicate member names, nothing after
// the value) is a ValidationError. "format" is checked where the draft makes it
// an assertion, which is up to draft 7.
func (s *Schema) Validate(raw []byte) error {
	r := newRun(s.limits)
	defer r.release()
	if err := r.scan(raw); err != nil {
		return err
	}
	if s.program == nil {
		return s.library.validate(r)
	}
	ok := r.check(s.program, 0)
	switch {
	case r.err != nil:
		return r.err
	case ok:
		return nil
	}
	return r.explain(s.program)
}
