package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// FromRecording returns a mock of the server of a recording.
func FromRecording(h recording.Header, entries []recording.Entry, o Options) (*Mock, error) {
	r, err := read(h, entries, o.Pace)
	if err != nil {
		return nil, err
	}
	d := r.found
	m := newMock(&server.Server{
		Name: orDefault(d.info.Name, "parley-mock"), Version: orDefault(d.info.Version, "1.0.0"), Title: d.info.Title, Description: d.info.Description,
		WebsiteURL: d.info.WebsiteURL, Icons: d.info.Icons, Instructions: d.instructions,
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

// scripts returns the responses to the recorded requests: for equal arguments in the order of the recording, the last one
// any number of times.
func (r *reading) scripts() map[string]*recordedScript {
	scripts := make(map[string]*recordedScript)
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

// warn logs that a part of the recording has no effect.
func (m *Mock) warn(err error) {
	if err != nil {
		m.logger.Warn("a part of the recording has no effect", "error", err)
	}
}

// missing returns a script without responses.
func missing(method, name string) *script { return &script{subject: method + " " + name} }

func (m *Mock) recordedTools(d *definitions, scripts map[string]*recordedScript) {
	if d.capabilities.Tools != nil {
		m.server.DeclareTools()
	}
	add := func(tool mcp.Tool, s *script) {
		var options []server.ToolOption
		poll, runs := d.taskPoll[tool.Name]
		if support := tool.Execution; support != nil && support.TaskSupport != "" && support.TaskSupport != mcp.TaskForbidden || runs || d.taskRequired[tool.Name] {
			o := server.TaskOptions{AtDetach: true, PollInterval: poll}
			if d.taskRequired[tool.Name] || support != nil && support.TaskSupport == mcp.TaskRequired {
				o.Support = mcp.TaskRequired
			}
			options = append(options, server.AsTask(o))
		}
		tool.Execution = nil // AsTask sets it
		tool.Source = without(tool.Source, "execution")
		m.warn(m.addTool(tool, s, options...))
	}
	for _, name := range d.tools.names {
		s := missing(mcp.MethodCallTool, name)
		if found := scripts[s.subject]; found != nil {
			s = found.script
		}
		add(d.tools.byName[name], s)
	}
	for _, s := range scripts {
		if s.key.method == mcp.MethodCallTool && !d.tools.has(s.key.name) && s.works {
			m.hidden[mcp.MethodListTools+" "+s.key.name] = d.tools.listed
			add(mcp.Tool{Name: s.key.name, InputSchema: anyArguments, Source: definition("name", s.key.name, "inputSchema", string(anyArguments))}, s.script)
		}
	}
}

// definition returns the JSON of an entry that was not listed.
func definition(nameMember, name, member, value string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{%q:%s,%q:%s}`, nameMember, jsonrpc.AppendString(nil, name), member, value))
}

func (m *Mock) recordedPrompts(d *definitions, scripts map[string]*recordedScript) {
	if d.capabilities.Prompts != nil {
		m.server.DeclarePrompts()
	}
	for _, name := range d.prompts.names {
		s := missing(mcp.MethodGetPrompt, name)
		if found := scripts[s.subject]; found != nil {
			s = found.script
		}
		m.warn(m.addPrompt(d.prompts.byName[name], s))
	}
	for _, s := range scripts {
		if s.key.method == mcp.MethodGetPrompt && !d.prompts.has(s.key.name) && s.works {
			m.hidden[mcp.MethodListPrompts+" "+s.key.name] = d.prompts.listed
			p := mcp.Prompt{Name: s.key.name}
			for _, argument := range slices.Sorted(maps.Keys(s.arguments)) {
				p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: argument})
			}
			m.warn(m.addPrompt(p, s.script))
		}
	}
}

func (m *Mock) recordedResources(d *definitions, scripts map[string]*recordedScript) {
	if d.capabilities.Resources != nil {
		m.server.DeclareResources()
	}
	for _, uri := range d.resources.names {
		s := missing(mcp.MethodReadResource, uri)
		if found := scripts[s.subject]; found != nil {
			s = found.script
		}
		m.warn(m.addResource(d.resources.byName[uri], s))
	}
	for _, s := range scripts {
		if s.key.method == mcp.MethodReadResource && !d.resources.has(s.key.name) && s.works {
			m.hidden[mcp.MethodListResources+" "+s.key.name] = d.resources.listed || d.templates.listed
			m.warn(m.addResource(mcp.Resource{URI: s.key.name, Name: s.key.name}, s.script))
		}
	}
	for _, name := range d.templates.names {
		m.templates++
		read := missing(mcp.MethodReadResource, name)
		m.warn(m.server.RegisterTemplate(d.templates.byName[name], func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
			if s := scripts[mcp.MethodReadResource+" "+uri]; s != nil { // with errors only
				return m.read(ctx, s.script, map[string]string{"uri": uri})
			}
			return m.read(ctx, read, map[string]string{"uri": uri})
		}))
	}
}

func (m *Mock) recordedCompletions(scripts map[string]*recordedScript) {
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
		m.warn(m.server.RegisterCompletion(ref, argument, func(ctx context.Context, value string, _ map[string]string) (*mcp.Completion, error) {
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
