package mock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// message is what a mock uses of a message of JSON-RPC.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *jsonrpc.Error `json:"error"`
}

// recordedCall is a request of the client, and the requests with which the client has continued it.
type recordedCall struct {
	method   string
	params   json.RawMessage
	id       string // of the last request
	token    string // of progress
	exchange int64
	session  string
	response *response
	answered bool // the response has its result or error
	asked    map[string]bool
	noted    map[string]bool // notifications about lists and resources
}

// reading is the state while a recording is read, and what it has found.
type reading struct {
	sessions map[int64]string // of an exchange
	pending  []*recordedCall  // without a response, in the order of the requests
	calls    []*recordedCall  // to which the mock has responses
	byState  map[string]*recordedCall
	byTask   map[string]*recordedCall

	about        bool // a handshake, server/discover or a list
	info         mcp.Implementation
	instructions string
	capabilities mcp.ServerCapabilities
	tools        list[mcp.Tool]
	prompts      list[mcp.Prompt]
	resources    list[mcp.Resource]
	templates    list[mcp.ResourceTemplate]
	tasks        map[string]mcp.TaskSupport // whether tools run as tasks
}

// read reads a recording.
func read(entries []recording.Entry) (*reading, error) {
	r := &reading{
		sessions: make(map[int64]string), byState: make(map[string]*recordedCall),
		byTask: make(map[string]*recordedCall),
		tasks:  make(map[string]mcp.TaskSupport),
	}
	for i := range entries {
		e := &entries[i]
		if e.Peer != entries[0].Peer {
			return nil, fmt.Errorf("line %d: the recording contains several servers, %q and %q; record one", e.Line,
				entries[0].Peer, e.Peer)
		}
		if e.Request != nil {
			r.sessions[e.Exchange] = e.Request.Header.Get("Mcp-Session-Id")
		}
		if !e.Truncated {
			r.messages(e)
		}
	}
	if !r.about && !slices.ContainsFunc(r.calls, func(c *recordedCall) bool { return c.answered }) {
		return nil, errors.New("the recording contains no response of a server")
	}
	return r, nil
}

// messages reads the messages of an event.
func (r *reading) messages(e *recording.Entry) {
	batch := []jsontext.Value{e.Message}
	if raw := bytes.TrimSpace(e.Message); len(raw) > 0 && raw[0] == '[' {
		if err := jsonv2.Unmarshal(raw, &batch, jsontext.AllowDuplicateNames(true)); err != nil {
			return
		}
	}
	for _, one := range batch {
		var m message
		switch err := jsonv2.Unmarshal(one, &m, jsontext.AllowDuplicateNames(true)); {
		case err != nil:
		case e.From == recording.Client && m.Method != "" && m.ID != nil:
			r.request(e, &m)
		case e.From == recording.Client:
		case m.Method == "":
			if c := r.take(e, string(m.ID)); c != nil {
				r.respond(c, &m)
			}
		case m.ID != nil:
			if c := r.callOf(e, &m); c != nil {
				c.ask(string(m.ID), "", m.Method, json.RawMessage(m.Params))
			}
		default:
			r.notification(e, &m)
		}
	}
}

// maxPending is the limit of requests without a response at the same time.
const maxPending = 10_000

// request reads a request of the client. One with answers continues the call that has asked.
func (r *reading) request(e *recording.Entry, m *message) {
	params := json.RawMessage(m.Params)
	state, hasState := jsonrpc.Get(params, "requestState")
	_, hasAnswers := jsonrpc.Get(params, "inputResponses")
	key := stateKey(m.Method, params, state)
	c := r.byState[key]
	switch {
	case (hasState || hasAnswers) && c != nil:
		delete(r.byState, key)
	case hasState && m.Method != mcp.MethodUpdateTask:
		return // the mock rejects it as the server did
	default:
		c = &recordedCall{method: m.Method, params: params, response: &response{recorded: true},
			asked: make(map[string]bool), noted: make(map[string]bool)}
		if hasResponses(m.Method) {
			r.calls = append(r.calls, c)
		}
	}
	meta, _ := jsonrpc.Get(params, "_meta")
	token, _ := jsonrpc.Get(meta, "progressToken")
	c.id, c.token, c.exchange, c.session = string(m.ID), string(token), e.Exchange, r.sessions[e.Exchange]
	if len(r.pending) == maxPending {
		r.pending = r.pending[1:]
	}
	r.pending = append(r.pending, c)
}

// stateKey identifies a call that waits for answers.
func stateKey(method string, params, state json.RawMessage) string {
	if len(state) > 0 {
		return string(state)
	}
	arguments, _ := jsonrpc.Get(params, "arguments")
	return subjectOf(method, params) + string(canonical(arguments))
}

// hasResponses reports whether a mock has the responses to the requests of a method. To others it responds itself.
func hasResponses(method string) bool {
	if hasScript(method) || method == mcp.MethodComplete {
		return true
	}
	for _, own := range []string{"initialize", "ping", "server/", "tools/", "prompts/", "resources/", "completion/",
		"logging/", "tasks/", "subscriptions/", "notifications/"} {
		if strings.HasPrefix(method, own) {
			return false
		}
	}
	return true
}

// take removes the request for a response: the one of the exchange, or the last one of the session with the id.
func (r *reading) take(e *recording.Entry, id string) *recordedCall {
	found := -1
	for i, c := range r.pending {
		if c.id != id {
			continue
		}
		same := c.exchange == e.Exchange
		if same || found < 0 || c.session == r.sessions[e.Exchange] {
			found = i
		}
		if same {
			break
		}
	}
	if found < 0 {
		return nil
	}
	c := r.pending[found]
	r.pending = append(r.pending[:found:found], r.pending[found+1:]...)
	return c
}

// callOf returns the call to which a message of the server belongs: the one of its task, of its exchange, or the last
// one of the session.
func (r *reading) callOf(e *recording.Entry, m *message) *recordedCall {
	meta, _ := jsonrpc.Get(m.Params, "_meta")
	related, _ := jsonrpc.Get(meta, mcp.MetaRelatedTask)
	id, _ := jsonrpc.Get(related, "taskId")
	if c := r.byTask[jsonrpc.Unquote(id)]; c != nil {
		return c
	}
	var found *recordedCall
	for _, c := range r.pending {
		if !hasResponses(c.method) {
			continue
		}
		if e.Exchange > 0 && c.exchange == e.Exchange {
			return c
		}
		if c.session == r.sessions[e.Exchange] {
			found = c
		}
	}
	return found
}

func (r *reading) notification(e *recording.Entry, m *message) {
	switch m.Method {
	case mcp.NotificationProgress:
		p := new(mcp.ProgressParams)
		if err := jsonv2.Unmarshal(m.Params, p); err != nil {
			return
		}
		token := string(p.ProgressToken.Append(nil))
		for _, c := range r.pending {
			if c.token == token && (c.exchange == e.Exchange || c.session == r.sessions[e.Exchange]) {
				c.step(step{Progress: &p.Progress, Total: p.Total, Message: p.Message})
				return
			}
		}
	case mcp.NotificationMessage:
		p := new(mcp.LoggingMessageParams)
		if c := r.callOf(e, m); c != nil && jsonv2.Unmarshal(m.Params, p) == nil {
			c.step(step{Log: p.Data, Level: p.Level, Logger: p.Logger})
		}
	case mcp.NotificationToolListChanged, mcp.NotificationPromptListChanged, mcp.NotificationResourceListChanged:
		list, _, _ := strings.Cut(strings.TrimPrefix(m.Method, "notifications/"), "/")
		r.note(list, step{Changed: list})
	case mcp.NotificationResourceUpdated:
		uri, _ := jsonrpc.Get(m.Params, "uri")
		r.note(string(uri), step{Updated: jsonrpc.Unquote(uri)})
	}
}

// note adds a notification that belongs to no call to the last call of a tool, which has probably caused it. Several
// streams can have the same notification.
func (r *reading) note(what string, s step) {
	for i := len(r.calls) - 1; i >= 0; i-- {
		if c := r.calls[i]; c.method == mcp.MethodCallTool {
			if !c.noted[what] {
				c.noted[what] = true
				c.step(s)
			}
			return
		}
	}
}

func (c *recordedCall) step(s step) { c.response.Steps = append(c.response.Steps, s) }

// ask adds a question that was not asked before. The key is from 2026-07-28.
func (c *recordedCall) ask(id, key, method string, params json.RawMessage) {
	if c.asked[id] {
		return
	}
	c.asked[id] = true
	switch method {
	case mcp.MethodElicit:
		p := new(mcp.ElicitParams)
		if jsonv2.Unmarshal(params, p) == nil {
			c.step(step{Elicit: &p.Message, Schema: p.RequestedSchema, url: p.URL, key: key})
		}
	case mcp.MethodCreateMessage:
		c.step(step{sample: params, key: key})
	case mcp.MethodListRoots:
		c.step(step{Roots: true, key: key})
	}
}

func (c *recordedCall) finish(result json.RawMessage, err *jsonrpc.Error) {
	c.response.result, c.response.Error, c.answered = result, err, true
}

// respond reads the response to a request.
func (r *reading) respond(c *recordedCall, m *message) {
	result := json.RawMessage(m.Result)
	switch {
	case strings.HasPrefix(c.method, "tasks/"):
		r.task(c, m)
		return
	case !hasResponses(c.method):
		r.describe(c.method, result)
		return
	case m.Error != nil:
		// the mock makes those itself that are about the form, the headers, the revision and tasks
		switch m.Error.Code {
		case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, mcp.CodeHeaderMismatch,
			mcp.CodeUnsupportedVersion:
			return
		case mcp.CodeMissingCapability:
			if strings.Contains(string(m.Error.Data), mcp.ExtensionTasks) {
				r.tasks[nameOf(c.params)] = mcp.TaskRequired
				return
			}
		}
		c.finish(nil, m.Error)
		return
	}
	kind, _ := jsonrpc.Get(result, "resultType")
	task, isTask := jsonrpc.Get(result, "task") // 2025-11-25
	switch {
	case jsonrpc.Unquote(kind) == mcp.ResultTypeInputRequired:
		c.askAll(result)
		state, _ := jsonrpc.Get(result, "requestState")
		r.byState[stateKey(c.method, c.params, state)] = c
	case jsonrpc.Unquote(kind) == mcp.ResultTypeTask, isTask && c.method == mcp.MethodCallTool:
		if !isTask {
			task = result
		}
		id, _ := jsonrpc.Get(task, "taskId")
		r.byTask[jsonrpc.Unquote(id)] = c
		r.tasks[nameOf(c.params)] = cmp.Or(r.tasks[nameOf(c.params)], mcp.TaskOptional)
	default:
		c.finish(cleaned(result), nil)
	}
}

// askAll adds the questions of a result with the type input_required, or of a task.
func (c *recordedCall) askAll(result json.RawMessage) {
	all, _ := jsonrpc.Get(result, "inputRequests")
	for key, raw := range jsonrpc.All(all) {
		method, _ := jsonrpc.Get(raw, "method")
		params, _ := jsonrpc.Get(raw, "params")
		c.ask("key "+key, key, jsonrpc.Unquote(method), params)
	}
}

// task reads the response to a request about a task. Tasks/result has the result of the call, and the others a task.
func (r *reading) task(c *recordedCall, m *message) {
	id, _ := jsonrpc.Get(c.params, "taskId")
	call := r.byTask[jsonrpc.Unquote(id)]
	if call == nil || call.answered {
		return
	}
	task := message{Result: m.Result, Error: m.Error}
	if c.method != mcp.MethodTaskResult {
		call.askAll(json.RawMessage(m.Result))
		if task = (message{}); jsonv2.Unmarshal(m.Result, &task) != nil {
			return
		}
	}
	switch {
	case task.Error != nil:
		call.finish(nil, task.Error)
	case task.Result != nil:
		call.finish(cleaned(json.RawMessage(task.Result)), nil)
	}
}

// cleaned returns a result without what the server adds itself: its type and the members of _meta that belong to the
// protocol.
func cleaned(result json.RawMessage) json.RawMessage {
	return mcp.WithForwardableMeta(jsonrpc.Without(result, "resultType"))
}

// scripts returns the responses to the recorded requests by subject: for equal arguments in the order of the recording,
// the last one any number of times.
func (r *reading) scripts(redacted bool) map[string]*script {
	scripts := make(map[string]*script)
	last := make(map[string]*response) // by subject and arguments
	for _, c := range r.calls {
		if !c.answered {
			continue
		}
		subject := subjectOf(c.method, c.params)
		s := scripts[subject]
		if s == nil {
			s = &script{subject: subject}
			scripts[subject] = s
		}
		c.response.when, c.response.redacted = matchedBy(c.method, c.params), redacted
		all, _ := json.Marshal(c.response.when) // it is JSON
		same := subject + string(canonical(all))
		if before := last[same]; before != nil {
			before.Times = 1
		}
		last[same] = c.response
		s.responses = append(s.responses, c.response)
	}
	return scripts
}
