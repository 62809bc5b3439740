package schema

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// field is a Go struct field as a member of a JSON object.
type field struct {
	name     string
	goName   string
	typ      reflect.Type
	tag      reflect.StructTag
	optional bool // may be absent
	quoted   bool // the option "string": numbers inside of strings

	index []int
	named bool
}

// fieldsOf returns the members of a struct in the order of its fields, including
// those of embedded structs, and the type of the values of an embedded map, which
// takes all other members. It follows the rules of the JSON decoder: of fields with
// one name the shallowest wins, then the only one with a tag.
func fieldsOf(root reflect.Type) (fields []field, rest reflect.Type, err error) {
	type level struct {
		typ      reflect.Type
		index    []int
		optional bool
		walk     bool
	}
	queue := []level{{typ: root, walk: true}}
	seen := map[reflect.Type]bool{root: true}
	for len(queue) > 0 {
		in := queue[0]
		queue = queue[1:]
		for i := range in.typ.NumField() {
			sf := in.typ.Field(i)
			tag := sf.Tag.Get("json")
			if tag == "-" || !sf.IsExported() && !sf.Anonymous {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			f := field{
				name: cmp.Or(name, sf.Name), goName: sf.Name, typ: sf.Type, tag: sf.Tag,
				index: append(slices.Clone(in.index), i), named: name != "",
				optional: in.optional || sf.Type.Kind() == reflect.Pointer,
			}
			embed := sf.Anonymous && name == ""
			for option := range strings.SplitSeq(options, ",") {
				switch option {
				case "omitempty", "omitzero":
					f.optional = true
				case "string":
					f.quoted = true
				case "embed":
					embed = true
				default:
					if strings.HasPrefix(option, "format:") {
						return nil, nil, &TypeError{Path: sf.Name, Reason: `the json option "format" is not supported; use another type`}
					}
				}
			}
			if !embed {
				fields = append(fields, f)
				continue
			}
			inner := sf.Type
			if inner.Kind() == reflect.Pointer && inner.Name() == "" {
				inner = inner.Elem()
			}
			switch {
			case inner.Kind() == reflect.Struct:
				if in.walk {
					queue = append(queue, level{inner, f.index, in.optional || sf.Type.Kind() == reflect.Pointer, !seen[inner]})
				}
				seen[inner] = true
			case inner.Kind() == reflect.Map && rest == nil:
				rest = inner.Elem()
			case inner == reflect.TypeFor[jsontext.Value]() && rest == nil:
				rest = reflect.TypeFor[any]()
			}
		}
	}
	return dominant(fields), rest, nil
}

// dominant removes the fields that others hide, and sorts the rest.
func dominant(fields []field) []field {
	byName := map[string][]field{}
	for _, f := range fields {
		byName[f.name] = append(byName[f.name], f)
	}
	var kept []field
	for _, same := range byName {
		slices.SortStableFunc(same, func(a, b field) int {
			if c := cmp.Compare(len(a.index), len(b.index)); c != 0 || a.named == b.named {
				return c
			}
			if a.named {
				return -1
			}
			return 1
		})
		if len(same) == 1 || len(same[0].index) != len(same[1].index) || same[0].named != same[1].named {
			kept = append(kept, same[0])
		}
	}
	slices.SortFunc(kept, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return kept
}

// representation is the form of a Go type in JSON, as far as its methods or its
// identity determine it. The constants are in order of precedence.
type representation int

const (
	plainType    representation = iota // determined by its kind
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
	case hasMethods[encoding.TextMarshaler](t), hasMethods[encoding.TextAppender](t), hasMethods[encoding.TextUnmarshaler](t):
		return textType
	}
	return plainType
}

// readsItself reports whether a type has a method that reads its JSON.
func readsItself(t reflect.Type) bool {
	return hasMethods[json.Unmarshaler](t) || hasMethods[json2.UnmarshalerFrom](t) || hasMethods[encoding.TextUnmarshaler](t) ||
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
