package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// library validates what the fast path does not know, with the same verdicts and
// bounds. A validation in the library cannot be interrupted, so it is not begun
// unless an upper bound of its work (see cost) fits the time: nothing runs in the
// background and nothing is left behind.
type library struct {
	schema *jsonschema.Schema
	graph  *graph
	limits Limits
}

// Numbers in the library become big.Rat, whose size grows with the exponent. And
// it keeps the path to each subschema as a string.
const (
	maxLibraryDigits   = 1000
	maxLibraryExponent = 1000
	maxLibraryPaths    = 4 << 20
)

// refusal is a loader that loads nothing and remembers what was asked for.
type refusal struct{ asked string }

func (r *refusal) Load(uri string) (any, error) {
	r.asked = uri
	return nil, errors.New("external references are not followed")
}

// newLibrary compiles a surveyed document in the library.
func newLibrary(s *survey) (lib *library, err error) {
	// What the library cannot digest is an invalid schema, not a crash.
	defer func() {
		if r := recover(); r != nil {
			lib, err = nil, &InvalidSchemaError{Reason: fmt.Sprint(r)}
		}
	}()
	if err := s.boundNumbers(); err != nil {
		return nil, err
	}
	if s.paths > maxLibraryPaths {
		return nil, tooMany("bytes of all paths to subschemas", maxLibraryPaths)
	}
	loader := &refusal{}
	engine := &engine{patterns: &s.patterns}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(loader)
	c.UseRegexpEngine(engine.compile)
	if err := c.AddResource(rootURI, s.any(0)); err != nil {
		return nil, &InvalidSchemaError{Reason: err.Error()}
	}
	compiled, err := c.Compile(rootURI)
	engine.frozen = true
	switch {
	case engine.err != nil:
		return nil, engine.err
	case loader.asked != "":
		return nil, &RefError{Ref: loader.asked, Reason: "leads outside of the schema document; put its target under $defs"}
	case err != nil:
		return nil, invalidSchema(s.document, err)
	}
	lib = &library{schema: compiled, graph: newGraph(compiled), limits: s.limits}
	return lib, checkLoops(lib.graph.node(compiled))
}

// invalidSchema turns an error of the library's compiler into ours.
func invalidSchema(d *document, err error) error {
	if broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if cause, ok := errors.AsType[*jsonschema.ValidationError](broken.Err); ok {
			issues := (&translation{document: d}).issues(cause)
			return &InvalidSchemaError{Reason: (&ValidationError{Issues: issues}).Describe("schema")}
		}
	}
	if nowhere, ok := errors.AsType[*jsonschema.JSONPointerNotFoundError](err); ok {
		return &RefError{Ref: strings.TrimPrefix(nowhere.URL, rootURI), Reason: "leads nowhere"}
	}
	if nowhere, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
		return &RefError{Ref: strings.TrimPrefix(nowhere.Reference, rootURI), Reason: "leads nowhere"}
	}
	return &InvalidSchemaError{Reason: err.Error()}
}

// validate checks the scanned instance of a run.
func (lib *library) validate(r *run) (err error) {
	if err := r.boundNumbers(); err != nil {
		return err
	}
	w := work{document: &r.document, graph: lib.graph, left: budget(lib.limits), known: map[visit]int64{}}
	if !w.affordable(lib.schema) {
		return tooSlow(lib.limits)
	}
	defer func() {
		if recover() != nil {
			err = invalid("", "a value that the schema can judge", r.describe(0))
		}
	}()
	err = lib.schema.Validate(r.any(0))
	if err == nil {
		return nil
	}
	cause, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return invalid("", "a value that fits the schema", r.describe(0))
	}
	issues := (&translation{document: &r.document}).issues(cause)
	if len(issues) == 0 {
		issues = []Issue{{Expected: "a value that fits the schema", Got: r.describe(0)}}
	}
	return &ValidationError{Issues: issues}
}

// any builds the value at a token as the library wants it: numbers as they are
// spelled, nothing shared with the document.
func (d *document) any(at uint32) any {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindString:
		return string(jsonscan.AppendUnescaped(nil, d.Raw[t.Start:t.End]))
	case kindNumber:
		return json.Number(d.Raw[t.Start:t.End])
	case kindBoolean:
		return d.isTrue(at)
	case kindArray:
		list := make([]any, 0, t.Count)
		for i := at + 1; i < t.Next; i = d.Tokens[i].Next {
			list = append(list, d.any(i))
		}
		return list
	case kindObject:
		object := make(map[string]any, t.Count)
		for i := at + 1; i < t.Next; i = d.Tokens[i+1].Next {
			object[string(jsonscan.AppendUnescaped(nil, d.Raw[d.Tokens[i].Start:d.Tokens[i].End]))] = d.any(i + 1)
		}
		return object
	}
	return nil
}

// boundNumbers refuses numbers that big.Rat would make large.
func (d *document) boundNumbers() error {
	for i := range d.Tokens {
		t := &d.Tokens[i]
		if t.Kind != kindNumber || t.Plain && t.End-t.Start <= maxLibraryDigits {
			continue
		}
		n := parseDecimal(d.Raw[t.Start:t.End])
		if t.End-t.Start > maxLibraryDigits || n.point > maxLibraryExponent || n.point < -maxLibraryExponent {
			return tooMany("digits of a number", maxLibraryDigits)
		}
	}
	return nil
}

// engine compiles regular expressions for the library within our bounds. While a
// schema is being compiled it shares the survey's; afterwards, when the format
// "regex" asks, each stands alone, so that validations do not share anything.
type engine struct {
	patterns *patterns
	frozen   bool
	err      error // a bound that was exceeded while compiling
}

func (e *engine) compile(expression string) (jsonschema.Regexp, error) {
	if e.frozen {
		return compileAlone(expression, e.patterns.limit)
	}
	if err := e.patterns.check(expression); err != nil {
		e.err = err
		return nil, err
	}
	if p := e.patterns.get(expression); p != nil {
		return libraryRegexp{p}, nil
	}
	return nil, errors.New("not a regular expression that Go supports")
}

func compileAlone(expression string, limit int) (jsonschema.Regexp, error) {
	alone := patterns{limit: limit, compiled: map[string]*pattern{}}
	if err := alone.check(expression); err != nil {
		return nil, err
	}
	if p := alone.get(expression); p != nil {
		return libraryRegexp{p}, nil
	}
	return nil, errors.New("not a regular expression that Go supports")
}

type libraryRegexp struct{ *pattern }

func (r libraryRegexp) MatchString(s string) bool { return r.expression.MatchString(s) }
func (r libraryRegexp) String() string            { return r.expression.String() }

// libraryFormat returns the library's check of a format, or nil if it has none.
func libraryFormat(name string, limit int) *format {
	if name == "regex" {
		return &format{name: name, check: func(v any) error {
			s, ok := v.(string)
			if !ok {
				return nil
			}
			_, err := compileAlone(s, limit)
			return err
		}}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(&refusal{})
	if c.AddResource(rootURI, map[string]any{"format": name}) != nil {
		return nil
	}
	s, err := c.Compile(rootURI)
	if err != nil || s.Format == nil {
		return nil
	}
	return &format{name: name, check: s.Format.Validate}
}
