package mock

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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

// scripts returns the responses to the recorded requests: for equal arguments in the order of the recording, the last one
// any number of times.
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
