// Package jsondiff compares JSON values, key by key and element by element.
package jsondiff

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Change is a place at which two values differ.
type Change struct {
	Path jsontext.Pointer
	A, B jsontext.Value // nil if the place is missing
}

// Compare returns the places at which two valid JSON values differ.
func Compare(a, b jsontext.Value) []Change {
	return compare(nil, "", a, b)
}

// compare appends the differences at a place. A nil value is missing.
func compare(changes []Change, place jsontext.Pointer, a, b jsontext.Value) []Change {
	if a != nil && b != nil && a.Kind() == b.Kind() {
		switch a.Kind() {
		case '{':
			return compareObjects(changes, place, a, b)
		case '[':
			return compareArrays(changes, place, a, b)
		}
	}
	if a == nil || b == nil || !Equal(a, b) {
		return append(changes, Change{place, a, b})
	}
	return changes
}

// compareObjects compares the members in the order of their names.
func compareObjects(changes []Change, place jsontext.Pointer, objectA, objectB jsontext.Value) []Change {
	a, b := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	if decode(objectA, &a) != nil || decode(objectB, &b) != nil {
		return changes // both are valid JSON
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		changes = compare(changes, place.AppendToken(name), a[name], b[name])
	}
	return changes
}

func compareArrays(changes []Change, place jsontext.Pointer, arrayA, arrayB jsontext.Value) []Change {
	var a, b []jsontext.Value
	if decode(arrayA, &a) != nil || decode(arrayB, &b) != nil {
		return changes // both are valid JSON
	}
	for i := range max(len(a), len(b)) {
		var x, y jsontext.Value
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		changes = compare(changes, place.AppendToken(strconv.Itoa(i)), x, y)
	}
	return changes
}

// Equal reports whether two strings, numbers, booleans or nulls have the same value. Integers are compared digit by
// digit.
func Equal(a, b jsontext.Value) bool {
	switch {
	case string(a) == string(b):
		return true
	case a.Kind() != b.Kind():
		return false
	case a.Kind() == '"':
		return text(a) == text(b)
	case a.Kind() == '0':
		x, errX := strconv.ParseFloat(string(a), 64)
		y, errY := strconv.ParseFloat(string(b), 64)
		isInteger := !strings.ContainsAny(string(a)+string(b), ".eE") // which differ as text
		return errX == nil && errY == nil && x == y && !isInteger
	}
	return false
}

// text returns the value of a JSON string.
func text(v jsontext.Value) string {
	var s string
	_ = decode(v, &s) // it is a string
	return s
}

func decode(v jsontext.Value, into any) error {
	return json.Unmarshal(v, into, jsontext.AllowDuplicateNames(true))
}
