// Package jsondiff compares JSON values, member by member and element by element.
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

// Comparison compares values. Places are the tokens of a JSON Pointer; functions must not keep them. Functions that are
// nil report false.
type Comparison struct {
	// Ignore reports whether a place, with what is below it, may differ.
	Ignore func(place []string) bool
	// Match reports whether the strings at a place count as equal.
	Match func(place []string, a, b string) bool
	// WholeArrays makes arrays that differ one change.
	WholeArrays bool

	changes []Change
}

// Compare returns the places at which two valid JSON values differ.
func (c *Comparison) Compare(a, b jsontext.Value) []Change {
	c.changes = nil
	c.compare(nil, a, b)
	return c.changes
}

// compare adds the differences at a place. A nil value is missing.
func (c *Comparison) compare(place []string, a, b jsontext.Value) {
	if c.Ignore != nil && c.Ignore(place) {
		return
	}
	if a != nil && b != nil && a.Kind() == b.Kind() {
		switch a.Kind() {
		case '{':
			c.compareObjects(place, a, b)
			return
		case '[':
			if !c.WholeArrays {
				c.compareArrays(place, a, b)
			} else if len(new(Comparison).Compare(a, b)) > 0 {
				c.add(place, a, b)
			}
			return
		case '"':
			if c.Match != nil && c.Match(place, text(a), text(b)) {
				return
			}
		}
	}
	if a == nil || b == nil || !Equal(a, b) {
		c.add(place, a, b)
	}
}

// compareObjects compares the members in the order of their names.
func (c *Comparison) compareObjects(place []string, objectA, objectB jsontext.Value) {
	a, b := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	if decode(objectA, &a) != nil || decode(objectB, &b) != nil {
		return // both are valid JSON
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.compare(append(slices.Clone(place), name), a[name], b[name])
	}
}

func (c *Comparison) compareArrays(place []string, arrayA, arrayB jsontext.Value) {
	var a, b []jsontext.Value
	if decode(arrayA, &a) != nil || decode(arrayB, &b) != nil {
		return // both are valid JSON
	}
	for i := range max(len(a), len(b)) {
		var x, y jsontext.Value
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		c.compare(append(slices.Clone(place), strconv.Itoa(i)), x, y)
	}
}

func (c *Comparison) add(place []string, a, b jsontext.Value) {
	var path jsontext.Pointer
	for _, token := range place {
		path = path.AppendToken(token)
	}
	c.changes = append(c.changes, Change{path, a, b})
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
