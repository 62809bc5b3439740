package mcp

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
)

// encodeOptions makes encoding deterministic, so that encoded results can be compared, cached
// and digested. Strings in raw JSON keep their escapes.
var encodeOptions = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(encodeContent)),
)

// encode encodes v. Nil slices become [], and bytes that are not UTF-8 become U+FFFD. MarshalJSON methods
// must convert their value to a type without methods first.
func encode(v any) ([]byte, error) {
	return jsonscan.Marshal(v, encodeOptions)
}

// decode decodes data strictly, including [Content] fields. UnmarshalJSON methods must convert
// their receiver to a type without methods first.
func decode(data []byte, v any) error { return withContent.decode(data, v) }

var (
	withContent    = newDecoding(jsonv2.UnmarshalFromFunc(decodeContent))
	withoutContent = newDecoding(nil)
)

// decoding decodes strictly. Integers may be spelled 60000.0 or 6e4, as some programs write
// them. The JSON library rejects these spellings at first and accepts them in a second attempt,
// so that other messages cost no more.
type decoding struct{ plain, spelled jsonv2.Options }

// newDecoding returns a decoding with functions for some types, or nil.
func newDecoding(functions *jsonv2.Unmarshalers) decoding {
	return decoding{
		plain:   jsonv2.WithUnmarshalers(functions),
		spelled: jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(functions, jsonv2.UnmarshalFromFunc(decodeInteger))),
	}
}

func (d decoding) decode(data []byte, v any) error {
	err := jsonv2.Unmarshal(data, v, d.plain)
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok && semantic.JSONKind == '0' {
		return jsonv2.Unmarshal(data, v, d.spelled)
	}
	return err
}

// decodeInteger decodes an integer in any spelling.
func decodeInteger(dec *jsontext.Decoder, into *int64) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported // leave null and errors to the JSON library
	}
	literal, err := dec.ReadValue()
	if err != nil {
		return err
	}
	n, ok := jsonscan.Integer(literal)
	if !ok {
		return errors.New("must be an integer of 64 bits")
	}
	*into = n
	return nil
}

// encodeOver encodes v. If v was decoded from source, which may be nil, the result keeps the bytes of source for
// everything that has not changed since: keys for which T has no field, explicit zero values, the order of keys and
// the spelling of values. Line breaks become spaces, because a message is one line. v must not contain source.
func encodeOver[T any](source json.RawMessage, v *T) ([]byte, error) {
	if source == nil {
		return encode(v)
	}
	before := new(T)
	if err := decode(source, before); err != nil {
		return encode(v)
	}
	if reflect.DeepEqual(before, v) {
		return appendOneLine(nil, source), nil
	}
	now, err := encode(v)
	if err != nil {
		return nil, err
	}
	was, err := encode(before)
	if err != nil {
		return now, nil
	}
	return appendChanged(make([]byte, 0, len(source)), source, was, now), nil
}

// appendChanged appends source with the changes that lead from was to now. All are JSON.
func appendChanged(dst, source, was, now []byte) []byte {
	switch kind := now[0]; {
	case string(was) == string(now):
		return appendOneLine(dst, source)
	case kind != source[0] || kind != was[0]:
	case kind == '{':
		return appendChangedObject(dst, source, was, now)
	case kind == '[':
		old, previous, current := elementsOf(source), elementsOf(was), elementsOf(now)
		if len(old) != len(current) || len(previous) != len(current) {
			break
		}
		dst = append(dst, '[')
		for i := range current {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendChanged(dst, old[i], previous[i], current[i])
		}
		return append(dst, ']')
	}
	return append(dst, now...)
}

func appendChangedObject(dst, source, was, now []byte) []byte {
	// Do not use Members, which treats null as absent.
	previous, current := maps.Collect(jsonrpc.All(was)), maps.Collect(jsonrpc.All(now))
	seen := make(map[string]bool, len(current))
	dst = append(dst, '{')
	begin := len(dst)
	name := func(name string) {
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendString(dst, name), ':')
	}
	for member, value := range jsonrpc.All(source) {
		seen[member] = true
		before, known := previous[member]
		after, kept := current[member]
		switch {
		case known && !kept: // the program removed it
		case !kept: // T has no such field, or the value is zero
			name(member)
			dst = appendOneLine(dst, value)
		case !known:
			name(member)
			dst = append(dst, after...)
		default:
			name(member)
			dst = appendChanged(dst, value, before, after)
		}
	}
	for member, after := range jsonrpc.All(now) {
		if !seen[member] && string(previous[member]) != string(after) {
			name(member)
			dst = append(dst, after...)
		}
	}
	return append(dst, '}')
}

func elementsOf(array []byte) (all []jsontext.Value) {
	_ = jsonv2.Unmarshal(array, &all) // an encoding is valid
	return all
}

// appendOneLine appends a JSON value without line breaks.
func appendOneLine(dst, value []byte) []byte {
	start := len(dst)
	dst = append(dst, value...)
	jsonscan.ReplaceLineBreaks(dst[start:])
	return dst
}
