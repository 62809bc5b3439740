package mcp

import (
	"encoding/json"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
)

// encodeOver encodes v. If v was decoded from source, which may be nil, the result has the bytes of
// source for everything that was not changed since then: members that T has no field for, explicit
// zero values, the order of members and the notation of values. Line breaks become spaces, because a
// message has one line. v must not contain source.
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
	previous, current := jsonrpc.MembersOf(was), jsonrpc.MembersOf(now)
	seen := make(map[string]bool, current.Len())
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
		before, known := previous.Get(member)
		after, kept := current.Get(member)
		switch {
		case known && !kept: // removed
		case !kept: // T does not have it, or it is a zero value
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
	for member, after := range current.All() {
		if before, _ := previous.Get(member); !seen[member] && string(before) != string(after) {
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
