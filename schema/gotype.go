package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// representation is the JSON form of a Go type, if its methods or its
// identity determine it. The constants are in order of precedence.
type representation int

const (
	plainType    representation = iota // determined by the kind of the type
	timeType                           // a string in RFC 3339
	durationType                       // a string such as "1h30m"
	customType                         // unknown: the type has JSON methods
	textType                           // a string: the type has text methods
	numberType                         // encoding/json.Number, which is ambiguous
)

func representationOf(t reflect.Type) representation {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return timeType
	case t == reflect.TypeFor[time.Duration]():
		return durationType
	case t == reflect.TypeFor[json.Number]():
		return numberType
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return plainType
	case t == reflect.TypeFor[jsontext.Value](),
		hasMethods[json.Marshaler](t), hasMethods[json.Unmarshaler](t),
		hasMethods[json2.MarshalerTo](t), hasMethods[json2.UnmarshalerFrom](t):
		return customType
	case hasMethods[encoding.TextMarshaler](t), hasMethods[encoding.TextAppender](t),
		hasMethods[encoding.TextUnmarshaler](t):
		return textType
	}
	return plainType
}

// readsItself reports whether a type has a method that reads its JSON.
func readsItself(t reflect.Type) bool {
	return hasMethods[json.Unmarshaler](t) || hasMethods[json2.UnmarshalerFrom](t) ||
		hasMethods[encoding.TextUnmarshaler](t) ||
		t == reflect.TypeFor[jsontext.Value]()
}

func hasMethods[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// isBytes reports whether t is []byte or [N]byte, which is base 64 in JSON. Slices
// of named byte types are arrays of numbers.
func isBytes(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]()
}

// indirect removes pointers from a type. A pointer is an optional value.
func indirect(t reflect.Type) (reflect.Type, error) {
	seen := map[reflect.Type]bool{}
	for t.Kind() == reflect.Pointer {
		if seen[t] {
			return nil, fmt.Errorf("%s points to itself", t)
		}
		seen[t] = true
		t = t.Elem()
	}
	return t, nil
}
