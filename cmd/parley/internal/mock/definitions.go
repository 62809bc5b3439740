package mock

import (
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// definitions are what a recorded server has said about itself.
type definitions struct {
	info         mcp.Implementation
	instructions string
	capabilities mcp.ServerCapabilities
	answered     bool // a handshake or server/discover
	tools        list[mcp.Tool]
	prompts      list[mcp.Prompt]
	resources    list[mcp.Resource]
	templates    list[mcp.ResourceTemplate]
	taskRequired map[string]bool          // by tool
	taskPoll     map[string]time.Duration // by tool that has run as a task
}

func newDefinitions() *definitions {
	return &definitions{taskRequired: make(map[string]bool), taskPoll: make(map[string]time.Duration)}
}

func (d *definitions) empty() bool {
	return !d.answered && !d.tools.listed && !d.prompts.listed && !d.resources.listed && !d.templates.listed
}

// list has the entries of all pages of a list, and of all times at which it was requested. The last definition of
// an entry counts.
type list[T any] struct {
	listed bool
	names  []string // in the order of the list
	byName map[string]T
}

func (l *list[T]) has(name string) bool {
	_, ok := l.byName[name]
	return ok
}

// read adds the entries of a result. Name is the member that identifies an entry, and source returns the place for
// its JSON.
func (l *list[T]) read(result json.RawMessage, member, name string, source func(*T) *json.RawMessage) {
	entries, ok := jsonrpc.Get(result, member)
	var raws []jsontext.Value
	if !ok || jsonv2.Unmarshal(entries, &raws) != nil {
		return
	}
	l.listed = true
	for _, raw := range raws {
		raw := revision.WithForwardableMeta(json.RawMessage(raw))
		var entry T
		id, _ := jsonrpc.Get(raw, name)
		if err := jsonv2.Unmarshal(raw, &entry); err != nil || len(id) == 0 {
			continue
		}
		*source(&entry) = raw
		if l.byName == nil {
			l.byName = make(map[string]T)
		}
		key := jsonrpc.Unquote(id)
		if !l.has(key) {
			l.names = append(l.names, key)
		}
		l.byName[key] = entry
	}
}

// read reads the result of a request about the server or one of its lists.
func (d *definitions) read(method string, result json.RawMessage) {
	if len(result) == 0 {
		return
	}
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover:
		d.server(result)
	case mcp.MethodListTools:
		d.tools.read(result, "tools", "name", func(t *mcp.Tool) *json.RawMessage { return &t.Source })
	case mcp.MethodListPrompts:
		d.prompts.read(result, "prompts", "name", func(p *mcp.Prompt) *json.RawMessage { return &p.Source })
	case mcp.MethodListResources:
		d.resources.read(result, "resources", "uri", func(r *mcp.Resource) *json.RawMessage { return &r.Source })
	case mcp.MethodListResourceTemplates:
		d.templates.read(result, "resourceTemplates", "uriTemplate", func(t *mcp.ResourceTemplate) *json.RawMessage { return &t.Source })
	}
}

// server reads the result of initialize or server/discover.
func (d *definitions) server(result json.RawMessage) {
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
	d.answered = true
	d.info, d.instructions, d.capabilities = about.Info, about.Instructions, about.Capabilities
}

// task reads the task that a call of a tool has become.
func (d *definitions) task(tool string, task json.RawMessage) {
	var times struct {
		Modern int64 `json:"pollIntervalMs"`
		Legacy int64 `json:"pollInterval"`
	}
	_ = jsonv2.Unmarshal(task, &times) // there is a default
	d.taskPoll[tool] = time.Duration(max(times.Modern, times.Legacy, 0)) * time.Millisecond
}

// cleaned returns a result without what the server adds itself: its type and the members of _meta that belong to the
// protocol.
func cleaned(result json.RawMessage) json.RawMessage {
	return revision.WithForwardableMeta(revision.WithoutMembers(result, "resultType"))
}
