package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// FromRecording returns a mock of the server of a recording.
func FromRecording(h traffic.Header, entries []traffic.Entry, o Options) (*Mock, error) {
	r, err := read(h, entries, o.Pace)
	if err != nil {
		return nil, err
	}
	d := r.found
	m := newMock(&server.Server{
		Name: orDefault(d.info.Name, "parley-mock"), Version: orDefault(d.info.Version, "1.0.0"), Title: d.info.Title,
		Description: d.info.Description,
		WebsiteURL:  d.info.WebsiteURL, Icons: d.info.Icons, Instructions: d.instructions,
	}, o)
	scripts := r.scripts()
	m.recordedTools(d, scripts)
	m.recordedPrompts(d, scripts)
	m.recordedResources(d, scripts)
	m.recordedCompletions(scripts)
	for id, settings := range d.capabilities.Extensions {
		if id != mcp.ExtensionTasks {
			m.warn(m.server.RegisterExtension(server.Extension{ID: id, Settings: settings}))
		}
	}
	for _, s := range scripts {
		if !hasScript(s.key.method) && s.key.method != mcp.MethodComplete {
			m.others[s.key.method] = s.script
		}
	}
	return m, nil
}

// warn logs that a part of the recording has no effect.
func (m *Mock) warn(err error) {
	if err != nil {
		m.logger.Warn("a part of the recording has no effect", "error", err)
	}
}

func (m *Mock) recordedTools(d *definitions, scripts recordedScripts) {
	if d.capabilities.Tools != nil {
		m.server.DeclareTools()
	}
	add := func(tool mcp.Tool, s *script) {
		var options []server.ToolOption
		poll, runs := d.taskPoll[tool.Name]
		if support := tool.Execution; support != nil && support.TaskSupport != "" &&
			support.TaskSupport != mcp.TaskForbidden || runs || d.taskRequired[tool.Name] {
			o := server.TaskOptions{AtDetach: true, PollInterval: poll}
			if d.taskRequired[tool.Name] || support != nil && support.TaskSupport == mcp.TaskRequired {
				o.Support = mcp.TaskRequired
			}
			options = append(options, server.AsTask(o))
		}
		tool.Execution = nil // AsTask sets it
		tool.Source = revision.WithoutMembers(tool.Source, "execution")
		m.warn(m.addTool(tool, s, options...))
	}
	for _, name := range d.tools.names {
		add(d.tools.byName[name], scripts.of(mcp.MethodCallTool, name))
	}
	for s := range scripts.unlisted(mcp.MethodCallTool, d.tools.has) {
		m.hidden[mcp.MethodListTools+" "+s.key.name] = d.tools.listed
		add(mcp.Tool{Name: s.key.name, InputSchema: anyArguments,
			Source: definition("name", s.key.name, "inputSchema", string(anyArguments))}, s.script)
	}
}

// definition returns the JSON of an entry that was not listed.
func definition(nameMember, name, member, value string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{%q:%s,%q:%s}`, nameMember, jsonrpc.AppendString(nil, name), member, value))
}

func (m *Mock) recordedPrompts(d *definitions, scripts recordedScripts) {
	if d.capabilities.Prompts != nil {
		m.server.DeclarePrompts()
	}
	for _, name := range d.prompts.names {
		m.warn(m.addPrompt(d.prompts.byName[name], scripts.of(mcp.MethodGetPrompt, name)))
	}
	for s := range scripts.unlisted(mcp.MethodGetPrompt, d.prompts.has) {
		m.hidden[mcp.MethodListPrompts+" "+s.key.name] = d.prompts.listed
		p := mcp.Prompt{Name: s.key.name}
		for _, argument := range slices.Sorted(maps.Keys(s.arguments)) {
			p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: argument})
		}
		m.warn(m.addPrompt(p, s.script))
	}
}

func (m *Mock) recordedResources(d *definitions, scripts recordedScripts) {
	if d.capabilities.Resources != nil {
		m.server.DeclareResources()
	}
	for _, uri := range d.resources.names {
		m.warn(m.addResource(d.resources.byName[uri], scripts.of(mcp.MethodReadResource, uri)))
	}
	for s := range scripts.unlisted(mcp.MethodReadResource, d.resources.has) {
		m.hidden[mcp.MethodListResources+" "+s.key.name] = d.resources.listed || d.templates.listed
		m.warn(m.addResource(mcp.Resource{URI: s.key.name, Name: s.key.name}, s.script))
	}
	for _, name := range d.templates.names {
		m.templates++
		read := &script{subject: mcp.MethodReadResource + " " + name}
		m.warn(m.server.RegisterTemplate(d.templates.byName[name],
			func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
				if s := scripts[mcp.MethodReadResource+" "+uri]; s != nil { // with errors only
					return m.read(ctx, s.script, map[string]string{"uri": uri})
				}
				return m.read(ctx, read, map[string]string{"uri": uri})
			}))
	}
}

func (m *Mock) recordedCompletions(scripts recordedScripts) {
	for _, s := range scripts {
		if s.key.method != mcp.MethodComplete {
			continue
		}
		var ref mcp.CompleteReference
		text, argument := s.key.completion()
		if err := jsonv2.Unmarshal([]byte(text), &ref); err != nil {
			m.warn(err)
			continue
		}
		m.warn(m.server.RegisterCompletion(ref, argument,
			func(ctx context.Context, value string, _ map[string]string) (*mcp.Completion, error) {
				raw, err := m.play(ctx, s.script, argumentsOfTexts(map[string]string{"value": value}), nil)
				if err != nil {
					return nil, err
				}
				var result mcp.CompleteResult
				if err := jsonv2.Unmarshal(raw, &result); err != nil {
					return nil, fmt.Errorf("mock: invalid result of %s: %w", s.subject, err)
				}
				return &result.Completion, nil
			}))
	}
}

// message is what a mock uses of a message of JSON-RPC.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *errorEntry    `json:"error"`
}

// recordedCall is a request of the client.
type recordedCall struct {
	method   string
	params   json.RawMessage
	id       string
	token    string // of progress
	exchange int64
	session  string
	response *response     // its outcome is that of the response
	before   *recordedCall // whose questions the request answers
	answered bool          // the response was recorded
	skipped  bool          // the mock makes the response itself
	last     time.Time     // of the last event
	asked    map[string]bool
	noted    map[string]bool // notifications about lists and resources
}

// reading is the state while a recording is read.
type reading struct {
	pace     bool
	redacted bool
	sessions map[int64]string // of an exchange
	retry    map[int64]string // the last reconnection time of an event stream
	pending  []*recordedCall  // without a response, in the order of the requests
	calls    []*recordedCall  // to which the mock has responses
	byState  map[string]*recordedCall
	byTask   map[string]*recordedCall
	found    *definitions
}

// read reads a recording.
func read(h traffic.Header, entries []traffic.Entry, pace bool) (*reading, error) {
	r := &reading{
		pace: pace, redacted: h.Redacted, sessions: make(map[int64]string), retry: make(map[int64]string),
		byState: make(map[string]*recordedCall), byTask: make(map[string]*recordedCall), found: newDefinitions(),
	}
	peer := ""
	for i := range entries {
		e := &entries[i]
		if i == 0 {
			peer = e.Peer
		}
		if e.Peer != peer {
			return nil, fmt.Errorf("line %d: the recording has several servers, %q and %q; record one", e.Line, peer,
				e.Peer)
		}
		r.event(e)
	}
	for _, c := range r.byState {
		if !c.answered && c.response.fault == noResponse {
			c.response.unfinished = true
			c.response.outcome = outcome{err: unmatchedError(nil, "the recording ends with the questions of this call")}
		}
	}
	if len(r.calls) == 0 && r.found.empty() {
		return nil, errors.New("the recording has no response of a server")
	}
	return r, nil
}

func (r *reading) event(e *traffic.Entry) {
	if e.Request != nil {
		r.sessions[e.Exchange] = e.Request.Header.Get("Mcp-Session-Id")
	}
	if e.Stream != nil && e.Stream.Retry != "" {
		r.retry[e.Exchange] = e.Stream.Retry
	}
	isMessage := !e.Truncated && r.messages(e)
	if e.Response != nil && !isMessage {
		r.status(e)
	}
	if e.End && e.From == traffic.Server && e.Wire == traffic.HTTP {
		r.end(e)
	}
}

// messages reads the messages of an event, and reports whether it has any.
func (r *reading) messages(e *traffic.Entry) bool {
	raw := jsontext.Value(e.Message)
	if !raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return false
	}
	batch := []jsontext.Value{raw}
	if raw.Kind() == '[' {
		if err := jsonv2.Unmarshal(raw, &batch, jsontext.AllowDuplicateNames(true)); err != nil {
			return false
		}
	}
	found := false
	for _, one := range batch {
		var m message
		if err := jsonv2.Unmarshal(one, &m, jsontext.AllowDuplicateNames(true)); err != nil {
			continue
		}
		found = found || m.Method != "" || m.Result != nil || m.Error != nil
		if e.From == traffic.Client {
			r.ofClient(e, &m)
		} else {
			r.ofServer(e, &m)
		}
	}
	return found
}

func (r *reading) ofClient(e *traffic.Entry, m *message) {
	switch {
	case m.Method != "" && m.ID != nil:
		r.request(e, m)
	case m.Method == "":
		for _, c := range r.pending {
			if c.asked[string(m.ID)] {
				c.last = e.Time
			}
		}
	}
}

// request reads a request of the client. One with answers continues the call that has asked.
func (r *reading) request(e *traffic.Entry, m *message) {
	c := &recordedCall{
		method: m.Method, params: json.RawMessage(m.Params), id: string(m.ID), exchange: e.Exchange,
		session: r.sessions[e.Exchange], last: e.Time,
		response: &response{exactly: true, outcome: outcome{fault: noResponse}}, asked: make(map[string]bool),
		noted: make(map[string]bool),
	}
	if meta, ok := jsonrpc.Get(c.params, "_meta"); ok {
		token, _ := jsonrpc.Get(meta, "progressToken")
		c.token = string(token)
	}
	state, hasState := jsonrpc.Get(c.params, "requestState")
	_, hasAnswers := jsonrpc.Get(c.params, "inputResponses")
	before := r.byState[stateKey(c.method, c.params, state)]
	switch {
	case (hasState || hasAnswers) && before != nil && !before.answered:
		c.response, c.asked, c.noted, c.before = before.response, before.asked, before.noted, before
		before.answered = true
	case hasState && m.Method != mcp.MethodUpdateTask:
		c.skipped = true // the mock rejects it as the server did
	case hasResponses(m.Method):
		r.calls = append(r.calls, c)
	}
	if len(r.pending) == maxPending {
		r.pending = r.pending[1:]
	}
	r.pending = append(r.pending, c)
}

// maxPending is the limit of requests without a response at the same time.
const maxPending = 10_000

// stateKey identifies a call that waits for answers.
func stateKey(method string, params, state json.RawMessage) string {
	if len(state) > 0 {
		return string(state)
	}
	name, _ := jsonrpc.Get(params, "name")
	uri, _ := jsonrpc.Get(params, "uri")
	arguments, _ := jsonrpc.Get(params, "arguments")
	return method + string(name) + string(uri) + string(canonical(arguments))
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

func (r *reading) ofServer(e *traffic.Entry, m *message) {
	switch {
	case m.Method == "":
		if c := r.take(e, string(m.ID)); c != nil && !c.skipped {
			r.respond(c, e, m)
		}
	case m.ID != nil:
		if c := r.callOf(e, m); c != nil && m.Method != mcp.MethodPing {
			r.step(c, e, step{requests: []rpc.InputRequest{{Method: m.Method, Params: json.RawMessage(m.Params)}}})
			c.asked[string(m.ID)] = true
		}
	default:
		r.notification(e, m)
	}
}

// take removes the request for a response: the one of the exchange, or the last one of the session with the id.
func (r *reading) take(e *traffic.Entry, id string) *recordedCall {
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
func (r *reading) callOf(e *traffic.Entry, m *message) *recordedCall {
	if meta, ok := jsonrpc.Get(m.Params, "_meta"); ok {
		related, _ := jsonrpc.Get(meta, mcp.MetaRelatedTask)
		id, _ := jsonrpc.Get(related, "taskId")
		if c := r.byTask[jsonrpc.Unquote(id)]; c != nil {
			return c
		}
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

func (r *reading) notification(e *traffic.Entry, m *message) {
	switch m.Method {
	case mcp.NotificationProgress:
		var p struct {
			Token    jsontext.Value `json:"progressToken"`
			Progress float64        `json:"progress"`
			Total    float64        `json:"total"`
			Message  string         `json:"message"`
		}
		if err := jsonv2.Unmarshal(m.Params, &p); err != nil {
			return
		}
		for _, c := range r.pending {
			if c.token != "" && c.token == string(p.Token) &&
				(c.exchange == e.Exchange || c.session == r.sessions[e.Exchange]) {
				r.step(c, e, step{progress: &progress{p.Progress, p.Total, p.Message}})
				return
			}
		}
	case mcp.NotificationMessage:
		var p struct {
			Level  string         `json:"level"`
			Logger string         `json:"logger"`
			Data   jsontext.Value `json:"data"`
		}
		if err := jsonv2.Unmarshal(m.Params, &p); err != nil {
			return
		}
		if c := r.callOf(e, m); c != nil {
			r.step(c, e, step{log: &logMessage{p.Level, p.Logger, json.RawMessage(p.Data)}})
		}
	case mcp.NotificationToolListChanged, mcp.NotificationPromptListChanged, mcp.NotificationResourceListChanged:
		list, _, _ := strings.Cut(strings.TrimPrefix(m.Method, "notifications/"), "/")
		r.note(list, step{changed: list})
	case mcp.NotificationResourceUpdated:
		uri, _ := jsonrpc.Get(m.Params, "uri")
		r.note(string(uri), step{updated: jsonrpc.Unquote(uri)})
	}
}

// note adds a notification that belongs to no call to the last call of a tool, which has probably caused it. Several
// streams can have the same notification.
func (r *reading) note(what string, s step) {
	for i := len(r.calls) - 1; i >= 0; i-- {
		if c := r.calls[i]; c.method == mcp.MethodCallTool {
			if !c.noted[what] {
				c.noted[what] = true
				c.response.steps = append(c.response.steps, s)
			}
			return
		}
	}
}

// step adds a step, after the time since the event before it.
func (r *reading) step(c *recordedCall, e *traffic.Entry, s step) {
	if wait := e.Time.Sub(c.last); r.pace && wait > 0 {
		c.response.steps = append(c.response.steps, step{wait: wait})
	}
	c.last = e.Time
	c.response.steps = append(c.response.steps, s)
}
