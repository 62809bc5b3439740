package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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
		if c.Method == mcp.MethodPing || name == c.Name && (c.Method != mcp.MethodCallTool || sameJSON(arguments, c.Arguments)) {
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
	c.Task = &taskState{id, status, shorten(message, 500)}
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
