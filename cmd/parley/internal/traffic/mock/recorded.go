package mock

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// fromRecording returns a mock of the server of a recording.
func fromRecording(h recording.Header, entries []recording.Entry, logger *slog.Logger) (*Mock, error) {
	r, err := read(entries)
	if err != nil {
		return nil, err
	}
	m := newMock(&server.Server{
		Name: cmp.Or(r.info.Name, "parley-mock"), Version: cmp.Or(r.info.Version, "1.0.0"), Info: r.info,
		Instructions: r.instructions,
	}, logger)
	scripts := r.scripts(h.Redacted)
	take := func(method, name string) *script {
		s := scripts[method+" "+name]
		delete(scripts, method+" "+name)
		return cmp.Or(s, &script{subject: method + " " + name})
	}
	for _, c := range r.calls {
		m.server.Declare(c.method)
	}
	for method, declared := range map[string]bool{
		mcp.MethodCallTool: r.capabilities.Tools != nil, mcp.MethodGetPrompt: r.capabilities.Prompts != nil,
		mcp.MethodReadResource: r.capabilities.Resources != nil, mcp.MethodComplete: r.capabilities.Completions != nil,
	} {
		if declared {
			m.server.Declare(method)
		}
	}
	for _, tool := range r.tools.entries {
		support := r.tasks[tool.Name]
		if tool.Execution != nil && tool.Execution.TaskSupport != mcp.TaskForbidden {
			support = cmp.Or(tool.Execution.TaskSupport, support)
		}
		var options []server.Option
		if support != "" {
			options = append(options, server.AsTask(server.TaskOptions{Support: support, PollInterval: pollInterval}))
		}
		tool.Execution = nil // AsTask sets it
		tool.Source = jsonrpc.Without(tool.Source, "execution")
		m.warn(m.addTool(tool, take(mcp.MethodCallTool, tool.Name), options...))
	}
	for _, prompt := range r.prompts.entries {
		m.warn(m.addPrompt(prompt, take(mcp.MethodGetPrompt, prompt.Name)))
	}
	for _, resource := range r.resources.entries {
		m.warn(m.addResource(resource, take(mcp.MethodReadResource, resource.URI)))
	}
	for _, template := range r.templates.entries { // the URIs that were read have scripts of their own
		m.warn(m.addTemplate(template, &script{subject: mcp.MethodReadResource + " " + template.URITemplate}))
	}
	for id, settings := range r.capabilities.Extensions {
		if id != mcp.ExtensionTasks {
			m.warn(m.server.RegisterExtension(server.Extension{ID: id, Settings: settings}))
		}
	}
	m.unlisted = scripts
	return m, nil
}

// pollInterval is the time between the polls of a task.
const pollInterval = 100 * time.Millisecond

// warn logs that ignoring a part of the recording.
func (m *Mock) warn(err error) {
	if err != nil {
		m.logger.Warn("ignoring a part of the recording", "error", err)
	}
}

// list contains the entries of all pages of a list, and of all times at which it was requested. The last definition of
// an entry counts.
type list[T any] struct {
	entries []T
	index   map[string]int // by name
}

// read adds the entries of a result. Name is the member that identifies an entry, and source returns the place for
// its JSON.
func (l *list[T]) read(result json.RawMessage, member, name string, source func(*T) *json.RawMessage) {
	entries, _ := jsonrpc.Get(result, member)
	var raws []jsontext.Value
	if jsonv2.Unmarshal(entries, &raws) != nil {
		return
	}
	if l.index == nil {
		l.index = make(map[string]int)
	}
	for _, raw := range raws {
		raw := mcp.WithForwardableMeta(json.RawMessage(raw))
		var entry T
		id, _ := jsonrpc.Get(raw, name)
		if err := jsonv2.Unmarshal(raw, &entry); err != nil || len(id) == 0 {
			continue
		}
		*source(&entry) = raw
		i, known := l.index[string(id)]
		if !known {
			i = len(l.entries)
			l.index[string(id)] = i
			l.entries = append(l.entries, entry)
		}
		l.entries[i] = entry
	}
}

// describe reads the result of a request about the server or one of its lists.
func (r *reading) describe(method string, result json.RawMessage) {
	r.about = r.about || len(result) > 0
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover:
		var about struct {
			Info         mcp.Implementation        `json:"serverInfo"`
			Instructions string                    `json:"instructions"`
			Capabilities mcp.ServerCapabilities    `json:"capabilities"`
			Meta         map[string]jsontext.Value `json:"_meta"`
		}
		if err := jsonv2.Unmarshal(result, &about); err != nil {
			return
		}
		if raw, ok := about.Meta[mcp.MetaServerInfo]; ok {
			_ = jsonv2.Unmarshal(raw, &about.Info) // for display only
		}
		r.info, r.instructions, r.capabilities = about.Info, about.Instructions, about.Capabilities
	case mcp.MethodListTools:
		r.tools.read(result, "tools", "name", func(t *mcp.Tool) *json.RawMessage { return &t.Source })
	case mcp.MethodListPrompts:
		r.prompts.read(result, "prompts", "name", func(p *mcp.Prompt) *json.RawMessage { return &p.Source })
	case mcp.MethodListResources:
		r.resources.read(result, "resources", "uri", func(r *mcp.Resource) *json.RawMessage { return &r.Source })
	case mcp.MethodListResourceTemplates:
		r.templates.read(result, "resourceTemplates", "uriTemplate",
			func(t *mcp.ResourceTemplate) *json.RawMessage { return &t.Source })
	}
}
