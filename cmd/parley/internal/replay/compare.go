package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Change is a place of a message that differs. Recorded or Replayed is empty if the place is missing there.
type Change struct {
	Path     string `json:"path"` // a JSON Pointer (RFC 6901)
	Recorded string `json:"recorded,omitempty"`
	Replayed string `json:"replayed,omitempty"`
}

// Paths selects places of messages: JSON Pointers, in which * means every member or element. A path also selects
// what is below it.
type Paths [][]string

// ParsePaths parses paths such as /result/structuredContent/time and /result/content/*/text.
func ParsePaths(texts []string) (Paths, error) {
	var paths Paths
	for _, text := range texts {
		p := jsontext.Pointer(text)
		if text == "" || !p.IsValid() {
			return nil, fmt.Errorf("invalid path %q; write a JSON Pointer such as /result/structuredContent/time", text)
		}
		paths = append(paths, slices.Collect(p.Tokens()))
	}
	return paths, nil
}

// match reports whether the paths select a place.
func (p Paths) match(place []string) bool {
	return slices.ContainsFunc(p, func(path []string) bool {
		if len(path) != len(place) {
			return false
		}
		for i, name := range path {
			if name != "*" && name != place[i] {
				return false
			}
		}
		return true
	})
}

// comparison compares messages, and learns the values that the server chooses.
type comparison struct {
	ignore Paths
	learn  func(recorded, replayed string) // of a value that the server chooses
	out    []Change
}

// chosenByServer are the members whose values only the server understands.
var chosenByServer = map[string]bool{"nextCursor": true, "requestState": true, "taskId": true, "elicitationId": true}

// compare adds the differences at a place.
func (c *comparison) compare(place []string, recorded, replayed jsontext.Value) {
	if c.ignore.match(place) {
		return
	}
	kind := recorded.Kind()
	if kind == replayed.Kind() {
		switch kind {
		case '{':
			c.compareObjects(place, recorded, replayed)
			return
		case '[':
			c.compareArrays(place, recorded, replayed)
			return
		case '"':
			if len(place) > 0 && chosenByServer[place[len(place)-1]] {
				c.learn(text(recorded), text(replayed))
				return
			}
		}
	}
	if !equal(recorded, replayed) {
		c.add(place, string(recorded), string(replayed))
	}
}

func (c *comparison) compareObjects(place []string, recorded, replayed jsontext.Value) {
	a, b := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	if decode(recorded, &a) != nil || decode(replayed, &b) != nil {
		return // both are valid JSON
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		at := append(slices.Clone(place), name)
		if value, ok := b[name]; ok {
			c.compare(at, a[name], value)
		} else if !c.ignore.match(at) {
			c.add(at, string(a[name]), "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if at := append(slices.Clone(place), name); a[name] == nil && !c.ignore.match(at) {
			c.add(at, "", string(b[name]))
		}
	}
}

func (c *comparison) compareArrays(place []string, recorded, replayed jsontext.Value) {
	var a, b []jsontext.Value
	if decode(recorded, &a) != nil || decode(replayed, &b) != nil {
		return // both are valid JSON
	}
	for i := range max(len(a), len(b)) {
		at := append(slices.Clone(place), strconv.Itoa(i))
		switch {
		case i < len(a) && i < len(b):
			c.compare(at, a[i], b[i])
		case c.ignore.match(at):
		case i < len(a):
			c.add(at, string(a[i]), "")
		default:
			c.add(at, "", string(b[i]))
		}
	}
}

func (c *comparison) add(place []string, recorded, replayed string) {
	var path jsontext.Pointer
	for _, name := range place {
		path = path.AppendToken(name)
	}
	c.out = append(c.out, Change{string(path), recorded, replayed})
}

// equal reports whether two scalars have the same value.
func equal(a, b jsontext.Value) bool {
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
	_ = decode(v, &s)
	return s
}

func decode(v jsontext.Value, into any) error {
	return jsonv2.Unmarshal(v, into, jsontext.AllowDuplicateNames(true))
}
