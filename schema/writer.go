package schema

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object writes a JSON object after its opening brace.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(appendQuoted(o.b, name), ':')
}

// text writes a key with a string value, unless the string is empty.
func (o *object) text(name, value string) {
	if value != "" {
		o.key(name)
		o.b = appendQuoted(o.b, value)
	}
}

// raw writes a key with a JSON value, unless the value is empty.
func (o *object) raw(name, value string) {
	if value != "" {
		o.key(name)
		o.b = append(o.b, value...)
	}
}

func (o *object) end() []byte { return append(o.b, '}') }

// appendQuoted appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b, err := jsontext.AppendQuote(b, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

// CheckType returns an error if no value of a type can be encoded by [Marshal]: channels, functions and complex
// numbers, and types that contain one. In other types, single values may have no JSON, such as a map with NaN.
func CheckType(t reflect.Type) error {
	if t == nil {
		return &typeError{Path: "nil", Reason: "must be a type"}
	}
	return checkType(t, t.String(), map[reflect.Type]bool{})
}

func checkType(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	t, err := indirect(t)
	if err != nil {
		return &typeError{Path: path, Reason: err.Error()}
	}
	if seen[t] || representationOf(t) != plainType {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return &typeError{Path: path, Reason: noForm(t)}
	case reflect.Slice, reflect.Array, reflect.Map:
		return checkType(t.Elem(), path+"[]", seen)
	case reflect.Struct:
		fields, rest, err := fieldsOf(t)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if err := checkType(f.typ, path+"."+f.goName, seen); err != nil {
				return err
			}
		}
		if rest != nil {
			return checkType(rest, path, seen)
		}
	}
	return nil
}

func noForm(t reflect.Type) string {
	return "the type " + t.String() + " has no JSON form; leave the field out with `json:\"-\"`"
}
