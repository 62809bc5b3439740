package replay

import (
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
	"github.com/parley-mcp/parley/mcp"
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

// message is what a replay uses of a message of JSON-RPC.
type message struct {
	raw     []byte
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
	Params  params         `json:"-"`
	isBatch bool
	invalid bool
}

type params struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
}

func parse(raw []byte) *message {
	m := &message{raw: raw}
	v := jsontext.Value(raw)
	if !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		m.invalid = true
		return m
	}
	if v.Kind() == '[' {
		m.isBatch = true
		return m
	}
	var outer struct {
		Params jsontext.Value `json:"params"`
	}
	// members of other types remain empty
	_ = errors.Join(decode(raw, m), decode(raw, &outer), decode(outer.Params, &m.Params))
	m.raw = raw
	return m
}

func (m *message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// isPing reports whether a message is a ping, which depends on time only.
func (m *message) isPing() bool { return m.Method == "ping" }

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// isChange reports whether a message is a notification of a change. A server may merge equal ones that it has not sent
// yet.
func (m *message) isChange() bool {
	switch m.Method {
	case mcp.NotificationToolListChanged, mcp.NotificationPromptListChanged, mcp.NotificationResourceListChanged,
		mcp.NotificationResourceUpdated:
		return true
	}
	return false
}

// String describes a message, such as "tools/call greet".
func (m *message) String() string {
	switch {
	case m.invalid:
		return "invalid message"
	case m.isBatch:
		return "batch"
	case m.Method == "":
		return "response"
	case m.Params.Name != "":
		return m.Method + " " + m.Params.Name
	case m.Params.URI != "":
		return m.Method + " " + m.Params.URI
	}
	return m.Method
}

// matches reports whether a message of the server can be the recorded one.
func (m *message) matches(recorded *message) bool {
	switch {
	case recorded.invalid || m.invalid || recorded.isBatch || m.isBatch:
		return recorded.invalid == m.invalid && recorded.isBatch == m.isBatch
	case recorded.isResponse():
		return m.isResponse() && equalID(m.ID, recorded.ID)
	}
	return m.Method == recorded.Method && (m.ID == nil) == (recorded.ID == nil)
}

// equalID reports whether two ids are equal. An absent id equals null.
func equalID(a, b jsontext.Value) bool {
	if a == nil {
		a = jsontext.Value("null")
	}
	if b == nil {
		b = jsontext.Value("null")
	}
	return jsondiff.Equal(a, b)
}
