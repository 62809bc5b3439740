package schema

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Decode reads one JSON value into the variable to which into points, following the schema inferred from its type. It
// decodes every value that is valid for that schema, except for numbers and times that the Go type cannot represent.
//
// Keys are case-sensitive, and duplicate keys are rejected. Integers are exact and may be spelled 1.0 or 1e3. In an
// interface, a number becomes a float64, an integer beyond 2^53 an int64 or a uint64, and an integer of more than 64
// bits an error. A time.Duration is a string such as "1h30m". An absent field with a default tag gets its default, at
// every depth, even in structs that are absent themselves. Decode ignores keys for which the type has no field; the
// schema rejects them.
//
// An error about the input is a [*ValidationError] that names the place. Decode
// keeps nothing of raw; a json.RawMessage field gets a copy.
func Decode(raw []byte, into any) error {
	s, err := targetOf(into)
	if err != nil {
		return err
	}
	if s.plan != nil {
		r := newRun(0)
		ok := r.scan(raw) == nil && r.store(s.plan, 0, reflect.ValueOf(into).Elem())
		r.release()
		if ok {
			return nil
		}
	}
	return s.decode(raw, into)
}

// Decode checks one JSON value against the schema, like [Schema.Validate], and stores it in *into, like the function
// [Decode], in one scan. It is safe for concurrent use with different values of into. It tolerates two mistakes:
//
//   - A null that the schema rejects counts as absent if the field is optional: a pointer, a slice, a map, or one with
//     omitempty, omitzero or a default. A required field must not be absent.
//   - A string that contains the JSON of an array or an object is that array or object, where the
//     schema allows no string; see [Schema.Unquote].
func (s *Schema) Decode(raw []byte, into any) error {
	target, err := s.targetOf(into)
	if err != nil {
		return err
	}
	err = s.decode(target, raw, into)
	if _, invalid := errors.AsType[*ValidationError](err); !invalid {
		return err
	}
	meant := s.Unquote(raw)
	if bytes.Contains(meant, []byte("null")) {
		if meant, _ = target.rewrite(meant, dropOptional); meant == nil {
			return err
		}
	}
	if len(meant) == len(raw) {
		return err
	}
	if again := s.decode(target, meant, into); again == nil || bytes.Contains(raw, []byte("null")) {
		return again
	}
	return err
}

func (s *Schema) decode(target *shape, raw []byte, into any) error {
	r := newRun(s.limits.MaxTime)
	err := r.validate(s.program, raw)
	ok := err == nil && target.plan != nil && r.store(target.plan, 0, reflect.ValueOf(into).Elem())
	r.release()
	if ok || err != nil {
		return err
	}
	return target.decode(raw, into)
}

// target is a type into which a schema decodes.
type target struct {
	pointer reflect.Type // the type of a pointer to it
	*shape
}

// targetOf returns the shape of the value to which into points. It remembers the last type, because most
// schemas decode into a single type.
func (s *Schema) targetOf(into any) (*shape, error) {
	first := s.target.Load()
	if first != nil && first.pointer == reflect.TypeOf(into) && !reflect.ValueOf(into).IsNil() {
		return first.shape, nil
	}
	found, err := targetOf(into)
	if err == nil && first == nil {
		s.target.Store(&target{reflect.TypeOf(into), found})
	}
	return found, err
}

// targetOf returns the shape of the value to which into points.
func targetOf(into any) (*shape, error) {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(into).IsNil() {
		return nil, errors.New("schema: into must be a non-nil pointer")
	}
	return shapeOf(t.Elem())
}

// decode decodes raw with the JSON library.
func (s *shape) decode(raw []byte, into any) (err error) {
	if s.needs&needsDefaults != 0 {
		if raw, err = s.rewrite(raw, fillDefaults|plainIntegers); err != nil {
			return err
		}
	}
	err = unmarshal(raw, into, s)
	if err == nil {
		return nil
	}
	if s.needs&needsIntegers != 0 && s.needs&needsDefaults == 0 && isNumberError(err) {
		plain, rewriteErr := s.rewrite(raw, plainIntegers)
		if rewriteErr == nil && !bytes.Equal(plain, raw) {
			if err = unmarshal(plain, into, s); err == nil {
				return nil
			}
		}
	}
	return decodeError(raw, err)
}

func unmarshal(raw []byte, into any, s *shape) error {
	switch {
	case s.needs&needsDynamic != 0 && hasLargeInteger(raw):
		return json2.Unmarshal(raw, into, readExactly())
	case s.needs&needsDurations != 0:
		return json2.Unmarshal(raw, into, readDurations())
	}
	return json2.Unmarshal(raw, into)
}

// readDurations and writeDurations read and write time.Duration in the form that
// the schema describes; the JSON library has no form for it. They are created when
// they are first used, so that programs without durations start faster.
var (
	readDurations = sync.OnceValue(func() json2.Options {
		return json2.WithUnmarshalers(json2.UnmarshalFromFunc(readDuration))
	})
	writeDurations = sync.OnceValue(func() json2.Options {
		return json2.WithMarshalers(json2.MarshalToFunc(writeDuration))
	})
)

func readDuration(d *jsontext.Decoder, into *time.Duration) error {
	token, err := d.ReadToken()
	switch {
	case err != nil:
		return err
	case token.Kind() == 'n':
		*into = 0
		return nil
	case token.Kind() != '"':
		return errors.New(`duration must be a string such as "1h30m"`)
	}
	*into, err = time.ParseDuration(token.String())
	return err
}

func writeDuration(e *jsontext.Encoder, d time.Duration) error {
	return e.WriteToken(jsontext.String(d.String()))
}

// Marshal encodes v as its inferred schema describes it. It omits absent values instead of writing null, and writes nil
// slices and maps as empty ones, and a time.Duration as a string such as "1h30m". It sorts maps by their keys. Bytes
// that are not UTF-8 become U+FFFD. The caller owns the result.
func Marshal(v any) ([]byte, error) { return marshal(v, true) }

// MarshalArguments is like [Marshal], but text that is not UTF-8 is an error. Use it for the arguments of a call: with
// U+FFFD in it, a path would name another file.
func MarshalArguments(v any) ([]byte, error) { return marshal(v, false) }

func marshal(v any, replace bool) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	s, err := shapeOf(reflect.TypeOf(v))
	if err != nil {
		return nil, err
	}
	var b []byte
	switch durations := s.needs&(needsDurations|needsDynamic) != 0; {
	case durations && replace:
		b, err = jsonscan.Marshal(v, writeDurations(), json2.Deterministic(true))
	case durations:
		b, err = json2.Marshal(v, writeDurations(), json2.Deterministic(true))
	case replace:
		b, err = jsonscan.Marshal(v, json2.Deterministic(true))
	default:
		b, err = json2.Marshal(v, json2.Deterministic(true))
	}
	if err != nil || s.needs&needsOmission == 0 || !bytes.Contains(b, []byte("null")) {
		return b, err
	}
	return s.rewrite(b, dropNulls)
}

// decodable returns the error if the JSON library rejects a struct type.
func decodable(t reflect.Type) error {
	err := json2.Unmarshal([]byte("{}"), reflect.New(t).Interface())
	if semantic, ok := errors.AsType[*json2.SemanticError](err); ok && semantic.Err != nil {
		return semantic.Err
	}
	return err
}

func isNumberError(err error) bool {
	semantic, ok := errors.AsType[*json2.SemanticError](err)
	return ok && semantic.JSONKind == '0'
}

// decodeError turns an error of the JSON library into a ValidationError.
func decodeError(raw []byte, err error) error {
	if semantic, ok := errors.AsType[*json2.SemanticError](err); ok {
		d := document{}
		if scanErr := d.scan(raw); scanErr != nil {
			return scanErr
		}
		pointer := string(semantic.JSONPointer)
		got := "something else"
		if at, ok := d.at(pointer); ok {
			got = d.describe(at)
		}
		return invalid(cutPointer([]byte(pointer)), expectationOf(semantic), got)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		d := document{}
		if scanErr := d.scan(raw); scanErr != nil {
			return scanErr
		}
		return invalid(cutPointer([]byte(syntactic.JSONPointer)), "valid JSON", "something else")
	}
	return err
}

// expectationOf describes the JSON that a Go type requires.
func expectationOf(e *json2.SemanticError) string {
	t := e.GoType
	if t == nil {
		return "a value of another type"
	}
	if inner, err := indirect(t); err == nil {
		t = inner
	}
	switch representationOf(t) {
	case timeType:
		return "date and time such as \"2006-01-02T15:04:05Z\""
	case durationType:
		return "duration such as \"1h30m\""
	case textType, customType:
		if e.Err != nil {
			return "valid " + typeName(t) + " (" + escapePath(e.Err.Error()) + ")"
		}
		return "valid " + typeName(t)
	}
	if k := scalarKind(t, false); k == kindInteger {
		return integerRange(t)
	} else if isBytes(t) {
		return "string in base 64"
	} else if k != 0 {
		return k.String()
	}
	switch t.Kind() {
	case reflect.Interface:
		if e.Err != nil && errors.Is(e.Err, errLargeInteger) {
			return "integer of at most 64 bits"
		}
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "a value of another type"
}

func integerRange(t reflect.Type) string {
	bits := t.Bits()
	if t.Kind() >= reflect.Uint {
		return "integer from 0 to " + strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	}
	return "integer from " + strconv.FormatInt(math.MinInt64>>(64-bits), 10) +
		" to " + strconv.FormatInt(math.MaxInt64>>(64-bits), 10)
}

// changes says what a rewrite does to a document.
type changes uint8

const (
	fillDefaults  changes = 1 << iota // absent properties get their default
	plainIntegers                     // 1.0, 1e3 and -0 become 1, 1000 and 0 where an integer is expected
	dropNulls                         // properties are removed if they are null and null means absent
	dropOptional                      // optional properties with the value null are removed
)

// rewrite copies a document with changes. It returns raw itself if nothing changes,
// and a [*ValidationError] if raw is not strict JSON.
func (s *shape) rewrite(raw []byte, c changes) ([]byte, error) {
	r := newRun(0)
	defer r.release()
	if err := r.scan(raw); err != nil {
		return nil, err
	}
	w := rewriter{document: &r.document, changes: c}
	w.value(s, 0)
	if w.out == nil {
		return raw, nil
	}
	return append(w.out, raw[w.done:]...), nil
}

// rewriter copies raw only when it must: out is raw[:done] with the changes made so far.
type rewriter struct {
	*document
	changes changes
	out     []byte
	done    int
}

// replace writes text instead of raw[start:end].
func (w *rewriter) replace(start, end uint32, text []byte) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.Raw)+len(text)+64)
	}
	w.out = append(append(w.out, w.Raw[w.done:start]...), text...)
	w.done = int(end)
}

func (w *rewriter) value(s *shape, at uint32) {
	t := w.Tokens[at]
	switch {
	case s == nil:
	case s.kind == shapeWriter:
		all := w.changes
		w.changes &= plainIntegers
		w.value(s.elem, at)
		w.changes = all
	case s.kind == shapeInteger && t.Kind == kindNumber && w.changes&plainIntegers != 0:
		if text, ok := plainInteger(w.Bytes(at)); ok && !bytes.Equal(text, w.Bytes(at)) {
			w.replace(t.Start, t.End, text)
		}
	case s.kind == shapeList && t.Kind == kindArray:
		for i := at + 1; i < t.Next; i = w.Tokens[i].Next {
			w.value(s.elem, i)
		}
	case s.kind == shapeMap && t.Kind == kindObject:
		for i := at + 1; i < t.Next; i = w.Tokens[i+1].Next {
			w.value(s.elem, i+1)
		}
	case s.kind == shapeStruct && t.Kind == kindObject:
		w.object(s, at)
	}
}

// maxIntegerDigits is the greatest number of digits of a Go integer.
const maxIntegerDigits = 20

// plainInteger spells an integral number without fraction and exponent. It fails for
// numbers with more digits than a Go integer can have.
func plainInteger(literal []byte) ([]byte, bool) {
	d := parseDecimal(literal)
	if !d.isInteger() || d.point > maxIntegerDigits {
		return nil, false
	}
	var text []byte
	if d.negative {
		text = append(text, '-')
	}
	text = append(append(text, d.head...), d.tail...)
	for n := int64(d.len()); n < max(d.point, 1); n++ {
		text = append(text, '0')
	}
	return text, true
}

func (w *rewriter) object(s *shape, at uint32) {
	t := w.Tokens[at]
	kept := false  // an earlier property remains
	end := t.Start // end of the previous property
	for i := at + 1; i < t.Next; i = w.Tokens[i+1].Next {
		value := &w.Tokens[i+1]
		m := s.members[w.Text(i)]
		switch {
		case m == nil:
			w.value(s.elem, i+1)
			kept = true
		case value.Kind != kindNull || w.changes&m.nulls == 0:
			w.value(m.shape, i+1)
			kept = true
		case kept: // with the comma before it
			w.replace(end, value.End, nil)
		case value.Next < t.Next: // with the comma after it
			w.replace(w.Tokens[i].Start-1, w.Tokens[value.Next].Start-1, nil)
		default:
			w.replace(w.Tokens[i].Start-1, value.End, nil)
		}
		end = value.End
		if value.Kind == kindString {
			end++ // the quote
		}
	}
	if w.changes&fillDefaults != 0 && s.needs&needsDefaults != 0 {
		w.fill(s, at)
	}
}

// fill adds the defaults of absent properties at the end of an object.
func (w *rewriter) fill(s *shape, at uint32) {
	text := s.appendDefaults(nil, func(name string) bool {
		_, present := w.member(at, name)
		return present
	})
	if text == nil {
		return
	}
	t := w.Tokens[at]
	if t.Count > 0 {
		text = append([]byte{','}, text...)
	}
	w.replace(t.End-1, t.End-1, text)
}

// appendDefaults appends the absent properties that have a default, and the
// absent structs that contain such properties.
func (s *shape) appendDefaults(b []byte, present func(name string) bool) []byte {
	for _, m := range s.order {
		if present(m.name) || m.preset == nil && !(m.value && m.shape.needs&needsDefaults != 0) {
			continue
		}
		preset := m.preset
		if preset == nil {
			inner := m.shape.appendDefaults(nil, func(string) bool { return false })
			if inner == nil {
				continue // the defaults are behind a pointer or in a list
			}
			preset = append(append([]byte{'{'}, inner...), '}')
		}
		if b != nil {
			b = append(b, ',')
		}
		b = append(append(appendQuoted(b, m.name), ':'), preset...)
	}
	return b
}
