package mock

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// respond reads the response to a request.
func (r *reading) respond(c *recordedCall, e *traffic.Entry, m *message) {
	switch {
	case strings.HasPrefix(c.method, "tasks/"):
		r.task(c, m)
		return
	case !hasResponses(c.method):
		r.found.read(c.method, json.RawMessage(m.Result))
		return
	case m.Error != nil:
		r.failed(c, m.Error)
		return
	}
	result := json.RawMessage(m.Result)
	kind, _ := jsonrpc.Get(result, "resultType")
	task, isTask := jsonrpc.Get(result, "task") // 2025-11-25
	switch {
	case jsonrpc.Unquote(kind) == mcp.ResultTypeInputRequired:
		r.ask(c, e, result)
		state, _ := jsonrpc.Get(result, "requestState")
		r.byState[stateKey(c.method, c.params, state)] = c
	case jsonrpc.Unquote(kind) == mcp.ResultTypeTask:
		r.created(c, e, result)
	case isTask && c.method == mcp.MethodCallTool:
		r.created(c, e, task)
	default:
		c.finish(outcome{result: cleaned(result)})
		if wait := e.Time.Sub(c.last); r.pace && wait > 0 {
			c.response.latency = &wait
		}
	}
}

func (c *recordedCall) finish(o outcome) {
	c.response.outcome = o
	c.answered = true
}

// failed reads an error. The mock makes those itself that are about the form of the request, its headers or the
// revision, and those of tools that require tasks.
func (r *reading) failed(c *recordedCall, e *errorEntry) {
	if c.before != nil { // the client may send other answers
		c.before.answered = false
	}
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, mcp.CodeHeaderMismatch,
		mcp.CodeUnsupportedVersion:
		c.skipped = true
	default:
		if e.Code == mcp.CodeMissingCapability && strings.Contains(string(e.Data), mcp.ExtensionTasks) {
			c.skipped = true
			name, _ := jsonrpc.Get(c.params, "name")
			r.found.taskRequired[jsonrpc.Unquote(name)] = true
			return
		}
		c.finish(outcome{err: &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}})
	}
}

// ask adds the questions of a result with the type input_required, or of a task, that were not asked before.
func (r *reading) ask(c *recordedCall, e *traffic.Entry, result json.RawMessage) {
	var requests []rpc.InputRequest
	all, _ := jsonrpc.Get(result, "inputRequests")
	for key, raw := range jsonrpc.All(all) {
		method, _ := jsonrpc.Get(raw, "method")
		params, _ := jsonrpc.Get(raw, "params")
		if !c.asked["key "+key] {
			c.asked["key "+key] = true
			requests = append(requests, rpc.InputRequest{Key: key, Method: jsonrpc.Unquote(method), Params: params})
		}
	}
	if requests != nil {
		r.step(c, e, step{requests: requests})
	}
}

// created reads a call that has become a task.
func (r *reading) created(c *recordedCall, e *traffic.Entry, task json.RawMessage) {
	id, _ := jsonrpc.Get(task, "taskId")
	r.step(c, e, step{task: true})
	r.byTask[jsonrpc.Unquote(id)] = c
	c.answered = true
	name, _ := jsonrpc.Get(c.params, "name")
	r.found.task(jsonrpc.Unquote(name), task)
}

// task reads the response to a request about a task.
func (r *reading) task(c *recordedCall, m *message) {
	id, _ := jsonrpc.Get(c.params, "taskId")
	call := r.byTask[jsonrpc.Unquote(id)]
	if call == nil || call.response.fault != noResponse { // its end is known
		return
	}
	if c.method == mcp.MethodTaskResult {
		switch {
		case m.Error != nil:
			call.response.outcome = outcome{err: &jsonrpc.Error{Code: m.Error.Code, Message: m.Error.Message,
				Data: m.Error.Data}}
		case m.Result != nil:
			call.response.outcome = outcome{result: cleaned(json.RawMessage(m.Result))}
		}
		return
	}
	var task struct {
		Status    string         `json:"status"`
		Created   time.Time      `json:"createdAt"`
		Updated   time.Time      `json:"lastUpdatedAt"`
		Result    jsontext.Value `json:"result"`
		Error     *errorEntry    `json:"error"`
		Questions jsontext.Value `json:"inputRequests"`
	}
	if err := jsonv2.Unmarshal(m.Result, &task); err != nil {
		return
	}
	if task.Questions != nil {
		r.ask(call, &traffic.Entry{Event: traffic.Event{Time: call.last}}, json.RawMessage(m.Result))
	}
	switch {
	case task.Result != nil:
		call.response.outcome = outcome{result: cleaned(json.RawMessage(task.Result))}
	case task.Error != nil:
		call.response.outcome = outcome{err: &jsonrpc.Error{Code: task.Error.Code, Message: task.Error.Message,
			Data: task.Error.Data}}
	}
	if wait := task.Updated.Sub(task.Created); r.pace && wait > 0 && task.Status != string(mcp.TaskWorking) &&
		call.response.latency == nil {
		call.response.latency = &wait
	}
}

// status reads an HTTP response without a message. The mock plays the statuses of servers that are overloaded or have
// failed. Others are about the request, the session or the login.
func (r *reading) status(e *traffic.Entry) {
	failed := e.Response.Status == http.StatusTooManyRequests || e.Response.Status >= http.StatusInternalServerError
	for i, c := range r.pending {
		if c.exchange != e.Exchange || e.Response.Status < http.StatusBadRequest {
			continue
		}
		r.pending = append(r.pending[:i:i], r.pending[i+1:]...)
		if !failed {
			c.skipped = true
			return
		}
		seconds, _ := strconv.Atoi(e.Response.Header.Get("Retry-After"))
		c.finish(outcome{status: e.Response.Status, retryAfter: time.Duration(seconds) * time.Second})
		return
	}
}

// end reads the end of an HTTP response. A server can end the stream of a call that continues.
func (r *reading) end(e *traffic.Entry) {
	for _, c := range r.pending {
		if c.exchange != e.Exchange || !hasResponses(c.method) || c.skipped {
			continue
		}
		milliseconds, _ := strconv.Atoi(r.retry[e.Exchange])
		if e.Error != "" || milliseconds == 0 {
			c.response.fault = disconnect
			continue
		}
		wait := time.Duration(milliseconds) * time.Millisecond
		r.step(c, e, step{closeStream: &wait})
	}
}

// scriptKey names what a script is for.
type scriptKey struct {
	method string
	name   string // of the tool or prompt, or the URI; of a completion the reference and the argument
}

type recordedScript struct {
	key scriptKey
	*script
	arguments map[string]bool // the names of all arguments
	works     bool            // there is a response other than an error
}

// recordedScripts has the scripts of a recording by their subjects, such as "tools/call greet".
type recordedScripts map[string]*recordedScript

// of returns the script for an entry of a list. It has no responses if the recording has no request for the entry.
func (scripts recordedScripts) of(method, name string) *script {
	subject := method + " " + name
	if s := scripts[subject]; s != nil {
		return s.script
	}
	return &script{subject: subject}
}

// unlisted returns the scripts of a method whose names are not in its list. Scripts with errors only are not among
// them, because their names may be unknown to the server.
func (scripts recordedScripts) unlisted(method string, listed func(name string) bool) iter.Seq[*recordedScript] {
	return func(yield func(*recordedScript) bool) {
		for _, s := range scripts {
			if s.key.method == method && s.works && !listed(s.key.name) && !yield(s) {
				return
			}
		}
	}
}

// scripts returns the responses to the recorded requests: for equal arguments in the order of the recording, the last
// one any number of times.
func (r *reading) scripts() recordedScripts {
	scripts := make(recordedScripts)
	last := make(map[string]*response)     // by script and arguments
	finished := make(map[string]*response) // with questions, by script and arguments
	var unfinished []func()
	for _, c := range r.calls {
		if c.skipped {
			continue
		}
		k := scriptKey{method: c.method}
		var arguments map[string]json.RawMessage
		switch c.method {
		case mcp.MethodCallTool, mcp.MethodGetPrompt:
			name, _ := jsonrpc.Get(c.params, "name")
			given, _ := jsonrpc.Get(c.params, "arguments")
			k.name, arguments = jsonrpc.Unquote(name), argumentsOf(given)
		case mcp.MethodReadResource:
			uri, _ := jsonrpc.Get(c.params, "uri")
			k.name, arguments = jsonrpc.Unquote(uri), map[string]json.RawMessage{"uri": uri}
		case mcp.MethodComplete:
			k.name, arguments = completionOf(c.params)
		default:
			arguments = withoutMeta(c.params)
		}
		id := k.method + " " + k.name
		s := scripts[id]
		if s == nil {
			s = &recordedScript{key: k, script: &script{subject: id}, arguments: make(map[string]bool)}
			scripts[id] = s
		}
		c.response.when, c.response.redacted = arguments, r.redacted
		for name := range arguments {
			s.arguments[name] = true
		}
		s.works = s.works || c.response.err == nil
		all, _ := json.Marshal(arguments) // they are JSON
		same := id + string(canonical(all))
		if before := last[same]; before != nil {
			before.times = 1
		}
		last[same] = c.response
		s.responses = append(s.responses, c.response)
		switch {
		case c.response.unfinished:
			unfinished = append(unfinished, func() { c.response.finishAs(finished[same]) })
		case len(c.asked) > 0:
			finished[same] = c.response
		}
	}
	for _, finish := range unfinished {
		finish()
	}
	return scripts
}

// finishAs gives a response whose recording ends with questions the steps and the outcome of another one.
func (r *response) finishAs(other *response) {
	if other != nil {
		r.steps, r.outcome = other.steps, other.outcome
	}
}

// completionOf returns the name of the script of a completion, and its arguments.
func completionOf(params json.RawMessage) (name string, arguments map[string]json.RawMessage) {
	ref, _ := jsonrpc.Get(params, "ref")
	argument, _ := jsonrpc.Get(params, "argument")
	argumentName, _ := jsonrpc.Get(argument, "name")
	value, _ := jsonrpc.Get(argument, "value")
	return string(canonical(ref)) + " " + jsonrpc.Unquote(argumentName), map[string]json.RawMessage{"value": value}
}

// completion returns the reference and the argument of the script of a completion.
func (k scriptKey) completion() (ref, argument string) {
	i := strings.LastIndex(k.name, "} ") + 1
	return k.name[:i], strings.TrimPrefix(k.name[i:], " ")
}
