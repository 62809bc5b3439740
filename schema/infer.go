package schema

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// inferred caches the results of ForType: *Schema or error, by reflect.Type.
var inferred sync.Map

// For returns the schema of a T: of the JSON that [Decode] reads into it, and that [Marshal] writes. It infers the
// schema of a type once.
//
//   - A struct is an object without additional properties. A field is a property, described by its tags (see the
//     package documentation). It is required unless it is a pointer, is tagged omitempty or omitzero, or has a default.
//   - A pointer is an optional value. No type is null: models and clients handle a plain type better than a list of
//     types. Decode reads null for an optional property as absent.
//   - time.Time is a string of format date-time, time.Duration a string such as
//     "1h30m", []byte a string in base 64. Types with text methods are strings.
//   - A type with a method JSONSchema() string uses the schema that the method returns for the zero value.
//   - any, json.RawMessage and other types with JSON methods accept every value, unless the tags of a field say
//     that it is a string or a number.
//   - A type that contains itself is defined once, under $defs.
//
// Channels, functions, complex numbers, other interfaces and malformed tags cause
// an error that names the field.
func For[T any]() (*Schema, error) { return ForType(reflect.TypeFor[T]()) }

// ForType is like [For], for a type that is known only at run time.
func ForType(t reflect.Type) (*Schema, error) {
	if known, ok := inferred.Load(t); ok {
		s, _ := known.(*Schema)
		err, _ := known.(error)
		return s, err
	}
	var result any
	s, err := infer(t)
	if result = s; err != nil {
		result = err
	}
	result, _ = inferred.LoadOrStore(t, result)
	s, _ = result.(*Schema)
	err, _ = result.(error)
	return s, err
}

func infer(t reflect.Type) (*Schema, error) {
	if t == nil {
		return nil, &typeError{Path: "nil", Reason: "must be a type"}
	}
	in := &inference{names: map[reflect.Type]string{}, taken: map[string]bool{}, open: map[reflect.Type]bool{}}
	base, err := indirect(t)
	if err != nil {
		return nil, &typeError{Path: t.String(), Reason: err.Error()}
	}
	in.root = base
	if err := in.findRecursive(base, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	b, err := in.document(base)
	if err != nil {
		return nil, err
	}
	s, c, err := limits{}.compile(b)
	if err != nil {
		return nil, &typeError{Path: typeName(base), Reason: err.Error()}
	}
	for _, x := range in.examples {
		if x.tag == "default" {
			if err := check(c.nodeAt(x.pointer), x.json, s.limits); err != nil {
				return nil, &typeError{Path: x.path, Reason: "default must match the schema: " + err.Error()}
			}
		}
		if err := x.decode(); err != nil {
			return nil, &typeError{Path: x.path, Reason: x.tag + " must fit the type: " + err.Error()}
		}
	}
	if in.headers {
		if _, err := Headers(b); err != nil {
			return nil, &typeError{Path: typeName(base), Reason: err.Error()}
		}
	}
	return s, nil
}

// check validates raw against one node of a program.
func check(n *node, raw []byte, l limits) error {
	if n == nil {
		return errors.New("subschema must exist")
	}
	r := newRun(l.MaxTime)
	err := r.validate(n, raw)
	r.release()
	return err
}

// inference writes the schema document of one type.
type inference struct {
	root     reflect.Type
	open     map[reflect.Type]bool   // in findRecursive: the types around the current one
	names    map[reflect.Type]string // names of recursive types, under $defs
	taken    map[string]bool
	ordered  []reflect.Type // recursive types in the order in which they are found
	examples []example
	headers  bool
	count    int
}

// example is a value in a tag: a default, or a value of an enum.
type example struct {
	tag, path, pointer string
	json               []byte
	typ                reflect.Type
	quoted             bool
}

// decode returns an error if Decode cannot read the value. For some types, such as time.Time, the schema is not
// enough.
func (x *example) decode() error {
	s, err := shapeOf(x.typ)
	if err != nil || x.quoted {
		return err
	}
	return s.decode(x.json, reflect.New(x.typ).Interface())
}

// document writes the whole document for the root type.
func (in *inference) document(t reflect.Type) ([]byte, error) {
	b, err := in.appendPlain(nil, t, place{path: typeName(t)}, tags{}, false)
	if err != nil {
		return nil, err
	}
	var defs []byte
	for _, t := range in.ordered {
		if t == in.root {
			continue
		}
		if defs != nil {
			defs = append(defs, ',')
		}
		defs = append(appendQuoted(defs, in.names[t]), ':')
		at := place{path: typeName(t), pointer: "/$defs/" + in.names[t]}
		if defs, err = in.appendPlain(defs, t, at, tags{}, false); err != nil {
			return nil, err
		}
	}
	if defs != nil {
		b = append(b[:len(b)-1], `,"$defs":{`...)
		b = append(append(b, defs...), '}', '}')
	}
	return b, nil
}

// place is the current position of the inference, in the Go type and in the schema.
type place struct{ path, pointer string }

func (p place) field(f field) place {
	return place{p.path + "." + f.goName, p.pointer + "/properties" + string(appendPointer(nil, f.name))}
}

func (p place) fail(reason string) error { return &typeError{Path: p.path, Reason: reason} }

// appendType writes the subschema of a type, or a reference if the type is recursive.
func (in *inference) appendType(b []byte, t reflect.Type, at place, tg tags, quoted bool) ([]byte, error) {
	t, err := indirect(t)
	if err != nil {
		return nil, at.fail(err.Error())
	}
	if in.count++; in.count > (limits{}).withDefaults().MaxSubschemas {
		return nil, at.fail("the schema is too large; use json.RawMessage for a part of the type")
	}
	name, recursive := in.names[t]
	if !recursive {
		return in.appendPlain(b, t, at, tg, quoted)
	}
	ref := "#/$defs/" + name
	if t == in.root {
		ref = "#"
	}
	o := object{b: append(b, '{')}
	o.text("$ref", ref)
	tg.annotate(&o)
	return o.end(), nil
}

// appendPlain writes the complete subschema of a type.
func (in *inference) appendPlain(b []byte, t reflect.Type, at place, tg tags, quoted bool) ([]byte, error) {
	o := object{b: append(b, '{')}
	if fragment, ok := ownSchema(t); ok {
		if err := tg.refine(&o, fragment); err != nil {
			return nil, at.fail("JSONSchema of " + typeName(t) + " must return a JSON Schema that is an object: " +
				err.Error())
		}
		return o.end(), nil
	}
	switch representationOf(t) {
	case timeType:
		if tg.format == "" {
			tg.format = "date-time"
		}
		o.text("type", "string")
		tg.constrain(&o)
	case durationType:
		if tg.pattern == "" {
			tg.pattern = durationPattern
		}
		o.text("type", "string")
		tg.constrain(&o)
	case textType:
		o.text("type", "string")
		tg.constrain(&o)
	case customType:
		if tg.kind != 0 {
			o.text("type", tg.kind.String())
		}
		tg.constrain(&o)
	case numberType:
		return nil, at.fail("encoding/json.Number is not supported; use int64, float64 or json.RawMessage")
	default:
		var err error
		if o.b, err = in.appendKind(&o, t, at, tg, quoted); err != nil {
			return nil, err
		}
	}
	return o.end(), nil
}

// Patterns of numbers and durations in strings.
const (
	integerPattern = `^(0|-?[1-9][0-9]*)$`
	numberPattern  = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`
	// durationPattern matches the strings that time.ParseDuration accepts, including those that overflow.
	durationPattern = `^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
)

// appendKind writes the keywords that the kind of a type determines.
func (in *inference) appendKind(o *object, t reflect.Type, at place, tg tags, quoted bool) ([]byte, error) {
	if k := scalarKind(t, quoted); k != 0 {
		o.text("type", k.String())
		switch {
		case quoted && tg.pattern != "":
			return nil, at.fail(`pattern cannot be used with the json option "string"`)
		case isBytes(t):
			o.text("contentEncoding", "base64")
		case quoted && isInteger(t):
			tg.pattern = integerPattern
		case quoted && k == kindString:
			tg.pattern = numberPattern
		case k == kindInteger:
			if problem := tg.boundInteger(t); problem != "" {
				return nil, at.fail(problem)
			}
		}
		tg.constrain(o)
		return o.b, nil
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return nil, at.fail("the interface " + t.String() +
				" has no JSON form; use a concrete type, any or json.RawMessage")
		}
		tg.annotate(o)
		return o.b, nil
	case reflect.Slice, reflect.Array:
		return in.appendList(o, t, at, tg)
	case reflect.Map:
		return in.appendMap(o, t, at, tg)
	case reflect.Struct:
		return in.appendStruct(o, t, at, tg)
	}
	return nil, at.fail(noForm(t))
}

func (in *inference) appendList(o *object, t reflect.Type, at place, tg tags) ([]byte, error) {
	o.text("type", "array")
	tg.annotate(o)
	if t.Kind() == reflect.Array {
		tg.minItems = strconv.Itoa(t.Len())
		tg.maxItems = tg.minItems
	}
	o.raw("minItems", tg.minItems)
	o.raw("maxItems", tg.maxItems)
	items := tags{
		enum: tg.enum, format: tg.format, pattern: tg.pattern, minimum: tg.minimum, maximum: tg.maximum,
		minLength: tg.minLength, maxLength: tg.maxLength, kind: tg.kind,
	}
	var err error
	o.key("items")
	o.b, err = in.appendType(o.b, t.Elem(), place{at.path + "[]", at.pointer + "/items"}, items, false)
	return o.b, err
}

func (in *inference) appendMap(o *object, t reflect.Type, at place, tg tags) ([]byte, error) {
	key := t.Key()
	o.text("type", "object")
	tg.annotate(o)
	o.raw("properties", "{}") // some models reject an object without it
	switch r := representationOf(key); {
	case r == textType, r == timeType, key.Kind() == reflect.String && r == plainType:
	case isInteger(key) && r == plainType:
		pattern := integerPattern
		if key.Kind() >= reflect.Uint {
			pattern = `^(0|[1-9][0-9]*)$`
		}
		o.key("propertyNames")
		names := object{b: append(o.b, '{')}
		names.text("pattern", pattern)
		o.b = names.end()
	default:
		return nil, at.fail("the map key " + key.String() + " must be a string or an integer")
	}
	var err error
	o.key("additionalProperties")
	o.b, err = in.appendType(o.b, t.Elem(), place{at.path + "[]", at.pointer + "/additionalProperties"}, tags{}, false)
	return o.b, err
}

func (in *inference) appendStruct(o *object, t reflect.Type, at place, tg tags) ([]byte, error) {
	fields, rest, err := fieldsOf(t)
	if err != nil {
		var bad *typeError
		if errors.As(err, &bad) {
			return nil, &typeError{Path: at.path + "." + bad.Path, Reason: bad.Reason}
		}
		return nil, err
	}
	if err := decodable(t); err != nil {
		return nil, at.fail(err.Error())
	}
	o.text("type", "object")
	tg.annotate(o)
	o.key("properties") // even without properties: some models reject an object without it
	properties := object{b: append(o.b, '{')}
	var required []string
	for _, f := range fields {
		here := at.field(f)
		inner, err := indirect(f.typ)
		if err != nil {
			return nil, here.fail(err.Error())
		}
		if f.quoted && scalarKind(inner, false)&(kindNumber|kindInteger) == 0 {
			return nil, here.fail(`the json option "string" can only be used for numbers`)
		}
		tg, problem := parseTags(f, inner)
		if problem != "" {
			return nil, here.fail(problem)
		}
		in.headers = in.headers || tg.header != ""
		if tg.preset != nil {
			in.examples = append(in.examples,
				example{"default", here.path, here.pointer, tg.preset, f.typ, f.quoted})
		} else if !f.optional {
			required = append(required, f.name)
		}
		scalar := inner
		if tg.list {
			scalar = inner.Elem()
		}
		for _, value := range tg.enum {
			in.examples = append(in.examples, example{"enum", here.path, "", []byte(value), scalar, f.quoted})
		}
		properties.key(f.name)
		if properties.b, err = in.appendType(properties.b, f.typ, here, tg, f.quoted); err != nil {
			return nil, err
		}
	}
	o.b = properties.end()
	if required != nil {
		o.key("required")
		o.b = append(o.b, '[')
		for i, name := range required {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = appendQuoted(o.b, name)
		}
		o.b = append(o.b, ']')
	}
	o.key("additionalProperties")
	if rest == nil {
		o.b = append(o.b, "false"...)
		return o.b, nil
	}
	o.b, err = in.appendType(o.b, rest, place{at.path + "[]", at.pointer + "/additionalProperties"}, tags{}, false)
	return o.b, err
}

// annotate writes the keywords that describe a value without constraining it.
func (tg *tags) annotate(o *object) {
	o.text("title", tg.title)
	o.text("description", tg.doc)
	o.raw("default", string(tg.preset))
	o.text("x-mcp-header", tg.header)
}

// constrain writes all keywords of a scalar.
func (tg *tags) constrain(o *object) {
	tg.annotate(o)
	o.text("format", tg.format)
	if tg.enum != nil {
		o.raw("enum", "["+strings.Join(tg.enum, ",")+"]")
	}
	o.raw("minimum", tg.minimum)
	o.raw("maximum", tg.maximum)
	o.raw("minLength", tg.minLength)
	o.raw("maxLength", tg.maxLength)
	o.text("pattern", tg.pattern)
}

// refine writes the keywords of a schema, a JSON object, and the keywords of the tags, which take precedence.
func (tg *tags) refine(o *object, schema string) error {
	d := &document{}
	if err := d.scan([]byte(schema)); err != nil {
		return err
	}
	if d.Tokens[0].Kind != kindObject {
		return errors.New("it is " + d.describe(0))
	}
	own := object{b: []byte{'{'}}
	tg.constrain(&own)
	given := document{}
	if err := given.scan(own.end()); err != nil {
		return err
	}
	for i := uint32(1); i < d.Tokens[0].Next; i = d.Tokens[i+1].Next {
		name := d.Text(i)
		if _, replaced := given.member(0, name); !replaced && name != "$schema" {
			o.raw(name, jsonOf(d, i+1))
		}
	}
	tg.constrain(o)
	return nil
}

// jsonOf returns the JSON of the value at a token.
func jsonOf(d *document, at uint32) string {
	t := &d.Tokens[at]
	if t.Kind == kindString {
		return string(d.Raw[t.Start-1 : t.End+1])
	}
	return string(d.Raw[t.Start:t.End])
}

// maxSafeInteger is the greatest integer that can be mirrored into a header
// (2026-07-28, transports/streamable-http, Schema Extension). A double represents
// all integers up to it exactly.
const maxSafeInteger = 1<<53 - 1

// boundInteger adds the bounds of an integer type to the bounds in the tags, and
// returns a problem with the tags or "". Types of 64 bits get no bound except zero,
// because many peers cannot represent such bounds exactly. The decoder rejects
// numbers that do not fit.
func (tg *tags) boundInteger(t reflect.Type) string {
	var low, high string
	bits := t.Bits()
	if k := t.Kind(); k == reflect.Int || k == reflect.Uint || k == reflect.Uintptr {
		bits = 64 // the same schema on every machine
	}
	switch {
	case t.Kind() >= reflect.Uint && bits == 64:
		low = "0"
	case t.Kind() >= reflect.Uint:
		low, high = "0", strconv.FormatUint(1<<bits-1, 10)
	case bits < 64:
		low, high = strconv.FormatInt(math.MinInt64>>(64-bits), 10), strconv.FormatInt(1<<(bits-1)-1, 10)
	}
	if tg.header != "" {
		safe := strconv.FormatInt(maxSafeInteger, 10)
		if high == "" {
			high = safe
		}
		if low == "" {
			low = "-" + safe
		}
	}
	for _, side := range []struct {
		own, tag  *string
		name      string
		direction int
	}{{&low, &tg.minimum, "minimum", 1}, {&high, &tg.maximum, "maximum", -1}} {
		if *side.own == "" {
			continue
		}
		if *side.tag == "" {
			*side.tag = *side.own
		} else if newBound([]byte(*side.own)).cmp([]byte(*side.tag))*side.direction < 0 {
			return side.name + " must be in the range of the type"
		}
	}
	return ""
}
