package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/revision"
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
		if support := tool.Execution; support != nil && support.TaskSupport != "" && support.TaskSupport != mcp.TaskForbidden || runs || d.taskRequired[tool.Name] {
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
		add(mcp.Tool{Name: s.key.name, InputSchema: anyArguments, Source: definition("name", s.key.name, "inputSchema", string(anyArguments))}, s.script)
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
		m.warn(m.server.RegisterTemplate(d.templates.byName[name], func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
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
