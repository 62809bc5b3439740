package schema

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"
)

// Limits bounds the work that a schema can cause. A field that is zero or less has
// its default. Instances have bounds too: 128 levels and a million values.
type Limits struct {
	// MaxSubschemas bounds the subschemas of one document. The default is 10,000.
	MaxSubschemas int
	// MaxDepth bounds the nesting of subschemas. The default is 64.
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
	raw       json.RawMessage
	limits    Limits
	object    bool
	program   *node
	unchecked []Unchecked
	target    atomic.Pointer[target] // of the first Decode
}

// Unchecked is a keyword of a schema that [Schema.Validate] ignores because it
// cannot check it, such as a regular expression that uses a syntax that Go does
// not have.
type Unchecked struct {
	// Pointer is the JSON Pointer of the keyword's value in the schema, cut at about
	// 1 KiB.
	Pointer string
	// Reason says why the keyword cannot be checked.
	Reason string
}

// Compile compiles a schema document with the default [Limits]. The document may
// be of draft 4, 6, 7, 2019-09 or 2020-12; without $schema it is of 2020-12.
//
// Compile never fetches anything: references lead to places in the document, or to
// the meta-schemas of the drafts. A keyword that cannot be checked is no error;
// see [Schema.Unchecked].
//
// The error is a [*DialectError], [*RefError], [*LimitError],
// [*InvalidSchemaError], or a [*ValidationError] if raw is not strict JSON.
func Compile(raw []byte) (*Schema, error) { return Limits{}.Compile(raw) }

// Compile is [Compile] with other limits.
func (l Limits) Compile(raw []byte) (*Schema, error) {
	s, _, err := l.compile(raw, nil)
	return s, err
}

// compile also returns the compiler, which knows the nodes of the program by their
// places in the document.
func (l Limits) compile(raw []byte, load func(uri string) []byte) (*Schema, *compiler, error) {
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
	x, err := newIndex(d, l, load)
	if err != nil {
		return nil, nil, err
	}
	c := &compiler{index: x}
	if s.program, err = c.compile(); err != nil {
		return nil, nil, err
	}
	s.unchecked = c.unchecked
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
// them, in the order of the document. The caller owns the result.
func (s *Schema) Unchecked() []Unchecked { return slices.Clone(s.unchecked) }

// Validate checks one JSON value against the schema. It returns nil, a
// [*ValidationError], or a [*LimitError] if the instance exceeds a bound or the
// check takes too long. It keeps nothing of raw, and is safe for concurrent use.
//
// Input that is not strict JSON (UTF-8, no duplicate member names, nothing after
// the value) is a ValidationError. "format" is checked up to draft 7; in later
// drafts it is an annotation.
func (s *Schema) Validate(raw []byte) error {
	r := newRun(s.limits.MaxTime)
	err := r.validate(s.program, raw)
	r.release()
	return err
}
