package replay

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
)

// message is what a replay uses of a message of JSON-RPC.
type message struct {
	raw     []byte
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
	Params  params         `json:"params"`
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
	_ = decode(raw, m) // members of other types remain empty
	m.raw = raw
	return m
}

func (m *message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// isPing reports whether a message is a ping, which depends on time only.
func (m *message) isPing() bool { return m.Method == "ping" }

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

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
