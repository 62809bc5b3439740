package replay

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsondiff"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/jsonrpc"
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

// order is the order in which a server has served the entries of a recording.
type order struct {
	entries []traffic.Entry
	after   map[int][]int // indices of entries that follow another one, in their order
	moved   map[int]bool  // the entries in after
}

// exchange has the indices of the entries of an HTTP request and its response.
type exchange struct {
	request, response int
	end               int // of the response, if it is a stream; or 0
}

// ordered returns the entries in the order in which the server has served them, as far as the responses tell.
// Clients send the DELETE request for a session while other requests of the session are in flight. A request for
// which the session was not found follows the response to the DELETE request. A DELETE request follows the
// responses that came before its own, the beginnings of streams, and results; the ends of streams follow it.
func ordered(entries []traffic.Entry) []*traffic.Entry {
	o := &order{entries: entries, after: make(map[int][]int), moved: make(map[int]bool)}
	sessions := o.sessions()
	for i, e := range entries {
		if e.Request == nil || e.Request.Method != http.MethodDelete {
			continue
		}
		session := sessions[sessionOf(e.Request.Header)]
		for _, x := range session {
			if x.request == i {
				o.endSession(x, session)
			}
		}
	}
	result := make([]*traffic.Entry, 0, len(entries))
	for i := range entries {
		if !o.moved[i] {
			result = append(result, &entries[i])
		}
		for _, other := range o.after[i] {
			result = append(result, &entries[other])
		}
	}
	return result
}

// sessions returns the exchanges with a response by session, in the order of their requests.
func (o *order) sessions() map[string][]*exchange {
	byNumber := make(map[int64]*exchange)
	for i, e := range o.entries {
		x := byNumber[e.Exchange]
		switch {
		case e.Request != nil:
			byNumber[e.Exchange] = &exchange{request: i}
		case x == nil || e.From != traffic.Server:
		case e.Response != nil:
			x.response = i
		case e.End:
			x.end = i
		}
	}
	sessions := make(map[string][]*exchange)
	for i, e := range o.entries {
		x := byNumber[e.Exchange]
		if x == nil || x.request != i || x.response == 0 {
			continue
		}
		id := sessionOf(e.Request.Header)
		if id == "" { // the request that begins a session
			id = sessionOf(o.entries[x.response].Response.Header)
		}
		sessions[id] = append(sessions[id], x)
	}
	return sessions
}

func sessionOf(h http.Header) string { return h.Get("Mcp-Session-Id") }

// endSession orders the exchanges of a session around the DELETE request that has ended it.
func (o *order) endSession(end *exchange, session []*exchange) {
	last := end.request // the last response before that of the DELETE request
	var late []*exchange
	for _, x := range session {
		switch {
		case x == end || x.request > end.response || x.response < end.request:
		case o.entries[x.response].Response.Status == http.StatusNotFound:
			late = append(late, x)
		case x.response < end.response || o.isStream(x) || hasResult(&o.entries[x.response]):
			last = max(last, x.response)
		}
	}
	if last > end.request {
		o.move(end.request, last)
		for _, x := range session {
			if o.isStream(x) && x.end > end.request && x.end < last {
				o.move(x.end, last)
			}
		}
	}
	if last > end.response {
		o.move(end.response, last)
	}
	last = max(last, end.response)
	for _, x := range late {
		o.move(x.request, last)
		if x.response < last {
			o.move(x.response, last)
		}
	}
}

// move puts an entry after another one, unless it was moved.
func (o *order) move(i, after int) {
	if !o.moved[i] {
		o.moved[i] = true
		o.after[after] = append(o.after[after], i)
	}
}

// isStream reports whether an exchange is a stream that a GET request has opened.
func (o *order) isStream(x *exchange) bool {
	return o.entries[x.request].Request.Method == http.MethodGet
}

// hasResult reports whether a response has a result. The result of a tool that has failed does not count, because the
// end of the session may be the reason.
func hasResult(e *traffic.Entry) bool {
	result := parse(e.Message).Result
	isError, _ := jsonrpc.Get(result, "isError")
	return result != nil && string(isError) != "true"
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
	// members of other types remain empty
	_ = errors.Join(decode(raw, m), decode(raw, &outer), decode(outer.Params, &m.Params))
	m.raw = raw
	return m
}

// isModern reports whether a message of the client has the revision 2026-07-28 or a later one, which each request
// names.
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
