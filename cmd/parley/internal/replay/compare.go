package replay

import (
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
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

// chosenByServer are the members whose values only the server understands.
var chosenByServer = map[string]bool{"nextCursor": true, "requestState": true, "taskId": true, "elicitationId": true}

// compare returns the differences of two messages. It calls learn for each value that the server chooses.
func compare(recorded, replayed jsontext.Value, ignore Paths, learn func(recorded, replayed string)) []Change {
	c := jsondiff.Comparison{
		Ignore: ignore.match,
		Match: func(place []string, recorded, replayed string) bool {
			chosen := len(place) > 0 && chosenByServer[place[len(place)-1]]
			if chosen {
				learn(recorded, replayed)
			}
			return chosen
		},
	}
	var changes []Change
	for _, change := range c.Compare(recorded, replayed) {
		changes = append(changes, Change{string(change.Path), string(change.A), string(change.B)})
	}
	return changes
}

func decode(v jsontext.Value, into any) error {
	return jsonv2.Unmarshal(v, into, jsontext.AllowDuplicateNames(true))
}
