package replay

import (
	"cmp"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
	"github.com/parley-mcp/parley/mcp"
)

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
	Name      string         `json:"name"`
	URI       string         `json:"uri"`
	TaskID    string         `json:"taskId"`
	RequestID jsontext.Value `json:"requestId"`
	Version   string         `json:"protocolVersion"` // of initialize
	Meta      jsontext.Value `json:"_meta"`
}

// repeated returns the parameter that requests of 2026-07-28 repeat in the header Mcp-Name.
func (p *params) repeated() string { return cmp.Or(p.Name, p.URI, p.TaskID) }

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
	_ = errors.Join(decode(raw, m), decode(raw, &outer), decode(outer.Params, &m.Params)) // members of other types remain empty
	m.raw = raw
	return m
}

// isModern reports whether a message of the client has the revision 2026-07-28 or a later one, which each request names.
func (m *message) isModern() bool {
	var meta struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	}
	return decode(m.Params.Meta, &meta) == nil && meta.Version != ""
}

func (m *message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// isPing reports whether a message is a ping, which depends on time only.
func (m *message) isPing() bool { return m.Method == "ping" }

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// isChange reports whether a message is a notification of a change. A server may merge equal ones that it has not sent yet.
func (m *message) isChange() bool {
	switch m.Method {
	case mcp.NotificationToolListChanged, mcp.NotificationPromptListChanged, mcp.NotificationResourceListChanged, mcp.NotificationResourceUpdated:
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
