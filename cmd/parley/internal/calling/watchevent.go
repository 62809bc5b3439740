package calling

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The events.
const (
	eventWatching = "watching"
	eventAdded    = "added"
	eventRemoved  = "removed"
	eventChanged  = "changed"
	eventUpdated  = "updated"
	eventLog      = "log"
	eventLost     = "lost"
	eventRegained = "regained"
)

// event is one event. Its JSON is a line of --output json.
type event struct {
	Time  string `json:"time"`
	Event string `json:"event"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"` // a name or URI
	Count *int   `json:"count,omitempty"`

	Value   json.RawMessage `json:"value,omitempty"`   // the new or changed object
	Members []string        `json:"members,omitempty"` // the members that have changed

	Contents []mcp.ResourceContents `json:"contents,omitempty"`
	// updates may have been missed while the connection was lost
	Unsure bool `json:"unsure,omitempty"`

	Level  mcp.LoggingLevel `json:"level,omitempty"`
	Logger string           `json:"logger,omitempty"`
	Data   json.RawMessage  `json:"data,omitempty"`

	Error string `json:"error,omitempty"`
}

// text returns the event as a line for the user.
func (e *event) text() string {
	name := e.Kind + " " + e.Name
	switch e.Event {
	case eventWatching:
		if e.Count == nil {
			return "watching " + e.Name
		}
		list := e.Kind
		if list == "resources" {
			list = "resources and templates" // one notification for both lists
		}
		return "watching " + list + ": " + strconv.Itoa(*e.Count)
	case eventAdded:
		return "+ " + name
	case eventRemoved:
		return "- " + name
	case eventChanged:
		return "~ " + name + ": " + strings.Join(e.Members, ", ")
	case eventUpdated:
		switch {
		case e.Error != "":
			name += ": " + e.Error
		case e.Unsure:
			name += ": may have been updated while the connection was lost"
		default:
			name += ": updated"
		}
		return "~ " + name
	case eventLog:
		return logLine(mcp.LoggingMessageParams{Level: e.Level, Logger: e.Logger, Data: e.Data})
	case eventLost:
		return "! connection lost: " + e.Error
	case eventRegained:
		return "! connection restored"
	}
	return e.Event
}

// reporter prints events. It is safe for concurrent use.
type reporter struct {
	mu     sync.Mutex
	w      io.Writer
	format output.Format
	now    func() time.Time
	err    error // of the first failed write
}

func newReporter(w io.Writer, format output.Format) *reporter {
	return &reporter{w: w, format: format, now: time.Now}
}

func (r *reporter) report(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.write(e)
	}
}

// failed returns the error of the first failed write, or nil. Later events are not printed.
func (r *reporter) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *reporter) write(e event) error {
	if r.format == output.Table {
		if _, err := io.WriteString(r.w, r.now().Format(time.TimeOnly)+" "+terminal.Line(e.text())+"\n"); err != nil ||
			e.Contents == nil {
			return err
		}
		return printContents(r.w, e.Contents, nil, picture.Off)
	}
	e.Time = r.now().Format(time.RFC3339Nano)
	return output.WriteEvent(r.w, r.format, &e)
}

// entry identifies one entry of a server's lists.
type entry struct{ kind, name string }

// snapshot contains the JSON of each entry of the lists of one notification.
type snapshot map[entry]json.RawMessage

// changesTo returns the differences between two snapshots, sorted by kind and name.
func (s snapshot) changesTo(now snapshot) []event {
	var events []event
	for o, value := range now {
		was, there := s[o]
		switch {
		case !there:
			events = append(events, event{Event: eventAdded, Kind: o.kind, Name: o.name, Value: value})
		case !bytes.Equal(was, value):
			events = append(events, event{Event: eventChanged, Kind: o.kind, Name: o.name, Value: value,
				Members: changedMembers(was, value)})
		}
	}
	for o := range s {
		if _, there := now[o]; !there {
			events = append(events, event{Event: eventRemoved, Kind: o.kind, Name: o.name})
		}
	}
	sort.Slice(events, func(i, j int) bool {
		a, b := &events[i], &events[j]
		return a.Kind+"\x00"+a.Name < b.Kind+"\x00"+b.Name
	})
	return events
}

// changedMembers returns the sorted names of the members that differ between two objects.
func changedMembers(was, now json.RawMessage) []string {
	values := make(map[string]string)
	keys, all := members(was)
	for i, key := range keys {
		values[key] = string(all[i])
	}
	var changed []string
	keys, all = members(now)
	for i, key := range keys {
		if value, there := values[key]; !there || value != string(all[i]) {
			changed = append(changed, key)
		}
		delete(values, key)
	}
	for key := range values {
		changed = append(changed, key)
	}
	slices.Sort(changed)
	return changed
}

// logLine returns a log message of a server as a line. The line is "server: info: logger: text: key=value, …" if the
// data is a string or an object with a message, and contains the JSON of other data.
func logLine(m mcp.LoggingMessageParams) string {
	var b strings.Builder
	b.WriteString("server: " + string(m.Level) + ": ")
	if m.Logger != "" {
		b.WriteString(m.Logger + ": ")
	}
	b.WriteString(logText(m.Data))
	return terminal.Line(b.String())
}

func logText(data json.RawMessage) string {
	var text string
	if schema.Decode(data, &text) == nil {
		return text
	}
	keys, values := members(data)
	var message string
	var rest []string
	for i, key := range keys {
		value := string(values[i])
		if schema.Decode(values[i], &text) == nil {
			value = text
		}
		if key == "message" {
			message = value
		} else {
			rest = append(rest, key+"="+value)
		}
	}
	switch {
	case message == "":
		return string(data)
	case rest == nil:
		return message
	}
	return message + ": " + strings.Join(rest, ", ")
}

// members returns the members of a JSON object in order, as views of it. It returns none for other values.
func members(object json.RawMessage) (keys []string, values []json.RawMessage) {
	if len(object) == 0 || object[0] != '{' {
		return nil, nil
	}
	for key, value := range jsonrpc.All(object) {
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}
