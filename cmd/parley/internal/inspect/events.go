package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

const (
	eventPause    = 40 * time.Millisecond // between two updates
	eventInterval = 15 * time.Second      // of empty updates, which find lost connections
	eventTimeout  = 10 * time.Second      // of each write
	maxEventLines = 500                   // messages of one update
)

// update is a line of the event stream: what has changed since the previous one.
type update struct {
	Hello    *hello  `json:"hello,omitempty"` // in the first one
	State    *state  `json:"state,omitempty"`
	Calls    []call  `json:"calls,omitempty"`
	Messages []entry `json:"messages,omitempty"`
	Oldest   uint64  `json:"oldest"` // number of the oldest message in the log
}

// hello is what does not change.
type hello struct {
	Version   string         `json:"version"`
	Revisions []mcp.Revision `json:"revisions"`
	Apps      string         `json:"apps,omitempty"` // origin of the frames of MCP Apps
}

// state is what is sent as a whole when it has changed.
type state struct {
	Servers   []serverState `json:"servers"`
	Questions []*question   `json:"questions"`
	Logins    []loginState  `json:"logins"`
}

// serveEvents serves the changes of the state, one JSON object per line, until the page closes the connection.
func (h *hub) serveEvents(w http.ResponseWriter, r *http.Request) {
	changed, end := h.listen()
	defer end()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := http.NewResponseController(w)
	alive := time.NewTicker(eventInterval)
	defer alive.Stop()
	u := update{Hello: &h.hello}
	var sent struct {
		state   []byte
		calls   uint64
		message uint64
	}
	for {
		raw, now := h.state()
		if !bytes.Equal(raw, sent.state) {
			sent.state, u.State = raw, now
		}
		u.Calls, sent.calls = h.callsAfter(sent.calls)
		messages, oldest := h.log.after(sent.message)
		u.Oldest = oldest
		for first := true; first || len(messages) > 0; first = false {
			n := min(len(messages), maxEventLines)
			u.Messages, messages = messages[:n], messages[n:]
			if n > 0 {
				sent.message = u.Messages[n-1].Number
			}
			line, err := json.Marshal(&u)
			if err != nil {
				return
			}
			_ = out.SetWriteDeadline(time.Now().Add(eventTimeout))
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
			u = update{Oldest: oldest}
		}
		if out.Flush() != nil {
			return
		}
		pause := time.NewTimer(eventPause)
		select {
		case <-pause.C:
		case <-r.Context().Done():
			pause.Stop()
			return
		}
		select {
		case <-changed:
		case <-alive.C:
		case <-r.Context().Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// state returns the state and its JSON.
func (h *hub) state() ([]byte, *state) {
	now := state{Servers: []serverState{}, Questions: h.openQuestions(), Logins: h.allLogins()}
	for _, s := range h.allServers() {
		now.Servers = append(now.Servers, s.snapshot())
	}
	raw, _ := json.Marshal(now)
	return raw, &now
}

// hub keeps the state of the page. Its mutex is taken after the mutexes of the log and of the servers.
type hub struct {
	ctx        context.Context // ends with the inspector
	now        func() time.Time
	log        *log
	transport  http.RoundTripper
	exchanges  atomic.Int64 // of all connections over HTTP
	record     func(server string, e recording.Event)
	recent     recent            // lines of recording
	recording  *recording.Writer // for exports
	background sync.WaitGroup
	hello      hello
	revision   mcp.Revision // of connections, unless the page chooses another one
	add        func(ctx context.Context, url string) (Server, error)
	// callerHeaders returns the names of headers with keys of callers.
	callerHeaders func() []string

	mu           sync.Mutex
	servers      []*server
	version      uint64 // incremented by each change of a call
	calls        []*call
	dropped      int // calls that trim has dropped so far
	lastCall     uint64
	running      int
	questions    []*question
	lastQuestion uint64
	logins       map[string]*loginState // by the names of the servers
	listeners    map[chan struct{}]bool // of the open pages
}

func newHub(ctx context.Context, now func() time.Time) *hub {
	h := &hub{ctx: ctx, now: now, record: func(string, recording.Event) {}, logins: make(map[string]*loginState),
		listeners: make(map[chan struct{}]bool), callerHeaders: func() []string { return nil }}
	h.log = &log{now: now, pending: make(map[pendingKey]*entry), wake: h.wake}
	h.transport = client.NewTransport()
	h.recording, _ = recording.NewWriter(&h.recent, recording.WriterOptions{Now: now}) // to memory
	h.recent.clear()                                                                   // an export has its own header
	return h
}

// touch records that a call has changed. It is called with mu held.
func (h *hub) touch(c *call) {
	h.version++
	c.Version = h.version
}

// wake tells the open pages that the state has changed. It is called without mu.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for listener := range h.listeners {
		select {
		case listener <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that receives after changes, and a function that ends this.
func (h *hub) listen() (changed <-chan struct{}, end func()) {
	listener := make(chan struct{}, 1)
	listener <- struct{}{}
	h.mu.Lock()
	h.listeners[listener] = true
	h.mu.Unlock()
	return listener, func() {
		h.mu.Lock()
		delete(h.listeners, listener)
		h.mu.Unlock()
	}
}

// server returns the server with a name, or nil.
func (h *hub) server(name string) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// allServers returns the servers in the order of the page.
func (h *hub) allServers() []*server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*server(nil), h.servers...)
}

// callsAfter returns copies of the calls that have changed after a version, and the current version.
func (h *hub) callsAfter(version uint64) (calls []call, current uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.Version > version {
			copied := *c
			copied.Steps = append([]step{}, c.Steps...)
			calls = append(calls, copied)
		}
	}
	return calls, h.version
}

// close closes the connections and waits for the calls. The context of the hub has ended.
func (h *hub) close() {
	for _, s := range h.allServers() {
		s.disconnect()
	}
	h.background.Wait()
	(&http.Client{Transport: h.transport}).CloseIdleConnections()
}

// observe connects a message with its call, and adds it to the timeline of the call. It is called with mu of the log
// held.
func (s *server) observe(e *entry, m *jsonrpc.Message, text []byte) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Sent && e.Kind == kindRequest:
		if c := h.callOf(s.Name, m); c != nil {
			h.sentRequest(c, e, m)
		}
	case !e.Sent && (e.Kind == kindResponse || e.Kind == kindError):
		for _, c := range h.calls {
			if c.Server == s.Name && c.sent[e.ID] {
				delete(c.sent, e.ID)
				e.Call = c.Number
				h.receivedResponse(c, e, text)
				break
			}
		}
	case !e.Sent && e.Kind == kindNotification:
		if id, status, message, ok := taskIn(m.Params.Raw()); ok {
			for _, c := range h.calls {
				if c.Server == s.Name && c.Task != nil && c.Task.ID == id {
					e.Call = c.Number
					h.taskChanged(c, e, id, status, message)
				}
			}
		}
	}
}

// callOf returns the running call of a request that the client sends: the request has the same method, name and
// arguments, or it is about the task of the call. It is called with mu held.
func (h *hub) callOf(server string, m *jsonrpc.Message) *call {
	var found *call
	for _, c := range h.calls {
		if c.Server != server || c.ended() {
			continue
		}
		if task := stringOf(m.Params.Get("taskId")); task != "" && c.Task != nil && c.Task.ID == task {
			return c
		}
		if c.Method != m.Method || len(c.sent) > 0 {
			continue
		}
		name := stringOf(m.Params.Get("name"))
		if c.Method == mcp.MethodReadResource {
			name = stringOf(m.Params.Get("uri"))
		}
		arguments, _ := m.Params.Get("arguments")
		if c.Method == mcp.MethodPing || name == c.Name &&
			(c.Method != mcp.MethodCallTool || sameJSON(arguments, c.Arguments)) {
			// Prefer a call that waits for its next round.
			if found == nil || c.State == callAsking && found.State != callAsking {
				found = c
			}
		}
	}
	return found
}

// stringOf returns the text of a JSON string, or "".
func stringOf(value []byte, ok bool) string {
	if !ok || len(value) < 2 || value[0] != '"' {
		return ""
	}
	return jsonrpc.Unquote(value)
}

// sameJSON reports whether two JSON values are written in the same way but for white space. A missing value is {}.
func sameJSON(a, b []byte) bool {
	return bytes.Equal(compact(a), compact(b))
}

func compact(text []byte) []byte {
	if len(text) == 0 {
		return []byte("{}")
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// sentRequest is called with mu held.
func (h *hub) sentRequest(c *call, e *entry, m *jsonrpc.Message) {
	e.Call = c.Number
	c.sent[e.ID] = true
	switch {
	case m.Method == mcp.MethodGetTask: // its response is a step if the status has changed
		return
	case m.Method != c.Method:
		c.add(h, "sent", m.Method, e.Number)
	default:
		c.Rounds++
		text := m.Method
		if c.Rounds > 1 {
			text = fmt.Sprintf("%s again, round %d", m.Method, c.Rounds)
		}
		c.goOn(callRunning)
		c.add(h, "sent", text, e.Number)
	}
	h.touch(c)
}

// receivedResponse is called with mu held.
func (h *hub) receivedResponse(c *call, e *entry, text []byte) {
	result, ok := jsonrpc.Get(text, "result")
	kind := stringOf(jsonrpc.Get(result, "resultType"))
	id, status, message, isTask := taskIn(result)
	switch {
	case !ok:
		c.add(h, "error", "error response", e.Number)
	case kind == mcp.ResultTypeInputRequired:
		requests, _ := jsonrpc.Get(result, "inputRequests")
		n := 0
		for range jsonrpc.All(requests) {
			n++
		}
		c.goOn(callAsking)
		c.add(h, "input", fmt.Sprintf("input required: %d of round %d", n, c.Rounds), e.Number)
	case isTask:
		if c.Task == nil {
			c.Task = &taskState{ID: id}
			c.add(h, "task", "task "+id, e.Number)
		}
		h.taskChanged(c, e, id, status, message)
	case e.Method == c.Method || e.Method == mcp.MethodTaskResult:
		c.add(h, "result", "result", e.Number)
	}
	h.touch(c)
}

// taskChanged records the status of a task. It is called with mu held.
func (h *hub) taskChanged(c *call, e *entry, id, status, message string) {
	before := *c.Task
	c.Task = &taskState{id, status, terminal.Shorten(message, 500)}
	switch mcp.TaskStatus(status) {
	case mcp.TaskInputRequired:
		c.goOn(callAsking)
	case mcp.TaskWorking:
		c.goOn(callRunning)
	}
	if before.Status != status || before.Message != c.Task.Message {
		text := "task is " + status
		if message != "" {
			text += ": " + message
		}
		c.add(h, "status", text, e.Number)
	}
	h.touch(c)
}

// taskIn returns the task in a result or in the parameters of a notification. In 2025-11-25 the result of tools/call
// has it as a member.
func taskIn(object []byte) (id, status, message string, ok bool) {
	if nested, has := jsonrpc.Get(object, "task"); has {
		object = nested
	}
	id, status = stringOf(jsonrpc.Get(object, "taskId")), stringOf(jsonrpc.Get(object, "status"))
	return id, status, stringOf(jsonrpc.Get(object, "statusMessage")), id != "" && status != ""
}
