// Package mock serves a server that a YAML file describes or that was recorded.
package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// Options are the settings of a Mock.
type Options struct {
	// Logger receives a warning for each request without a response. Nil means slog.Default().
	Logger *slog.Logger
	// Pace keeps the times of a recording. Otherwise its responses are sent at once.
	Pace bool
}

// Mock is a server whose responses come from a YAML file or a recording. It is safe for concurrent use.
type Mock struct {
	server   *server.Server
	logger   *slog.Logger
	latency  time.Duration
	requests []*requestRule
	hidden   map[string]bool     // by method of the list, and name
	names    map[string][]string // of the tools, prompts and resources, by the method that uses them
	others   map[string]*script
	changes  atomic.Int64

	tools, resources, templates, prompts int // numbers of definitions
}

// newMock returns a mock without definitions.
func newMock(s *server.Server, o Options) *Mock {
	m := &Mock{server: s, logger: o.Logger, hidden: make(map[string]bool), names: make(map[string][]string), others: make(map[string]*script)}
	if m.logger == nil {
		m.logger = slog.Default()
	}
	s.Logger = m.logger
	s.Middleware = append(s.Middleware, m.middleware)
	s.Hide = func(principal.Principal) func(string, string) bool {
		return func(list, name string) bool {
			return strings.HasPrefix(strings.TrimPrefix(name, "mock:"), transient) || m.hidden[list+" "+name]
		}
	}
	return m
}

// Server returns the server. Serve it with [Mock.Handler] or [Mock.ServeConn], which cause the faults of
// connections.
func (m *Mock) Server() *server.Server { return m.server }

// Summary returns the numbers of tools, resources, templates and prompts, such as "2 tools, 1 prompt".
func (m *Mock) Summary() string {
	var words []string
	for _, kind := range []struct {
		number int
		name   string
	}{{m.tools, "tool"}, {m.resources, "resource"}, {m.templates, "template"}, {m.prompts, "prompt"}} {
		if kind.number > 0 {
			words = append(words, terminal.Count(kind.number, kind.name))
		}
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// addTool adds a tool.
func (m *Mock) addTool(tool mcp.Tool, s *script, options ...server.ToolOption) error {
	m.tools++
	m.names[mcp.MethodCallTool] = append(m.names[mcp.MethodCallTool], tool.Name)
	return m.server.ForwardTool(tool, func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		raw, err := m.play(ctx, s, argumentsOf(arguments), arguments)
		if err != nil {
			return nil, err
		}
		result := new(mcp.CallToolResult)
		if err := result.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("mock: invalid result of %s: %w", s.subject, err)
		}
		result.Source = raw
		return result, nil
	}, options...)
}

// addResource adds a resource.
func (m *Mock) addResource(r mcp.Resource, s *script) error {
	m.resources++
	m.names[mcp.MethodReadResource] = append(m.names[mcp.MethodReadResource], r.URI)
	return m.server.RegisterResource(r, func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		return m.read(ctx, s, map[string]string{"uri": uri})
	})
}

// addTemplate adds a template, whose variables are the arguments of the script.
func (m *Mock) addTemplate(t mcp.ResourceTemplate, s *script) (err error) {
	m.templates++
	defer func() { // AddTemplate panics where the methods of a server return an error
		switch p := recover().(type) {
		case nil:
		case string:
			err = errors.New(strings.TrimPrefix(p, "server: "))
		default:
			panic(p)
		}
	}()
	server.AddTemplate(m.server, t, func(ctx context.Context, variables map[string]string) (*mcp.ReadResourceResult, error) {
		return m.read(ctx, s, variables)
	})
	return nil
}

func (m *Mock) read(ctx context.Context, s *script, variables map[string]string) (*mcp.ReadResourceResult, error) {
	arguments := argumentsOfTexts(variables)
	raw, err := m.play(ctx, s, arguments, nil)
	if err != nil {
		return nil, err
	}
	result := new(mcp.ReadResourceResult)
	if err := jsonv2.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("mock: invalid result of %s: %w", s.subject, err)
	}
	return result, nil
}

// addPrompt adds a prompt.
func (m *Mock) addPrompt(p mcp.Prompt, s *script) error {
	m.prompts++
	m.names[mcp.MethodGetPrompt] = append(m.names[mcp.MethodGetPrompt], p.Name)
	return m.server.RegisterPrompt(p, func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
		raw, err := m.play(ctx, s, argumentsOfTexts(arguments), nil)
		if err != nil {
			return nil, err
		}
		result := new(mcp.GetPromptResult)
		if err := jsonv2.Unmarshal(raw, result); err != nil {
			return nil, fmt.Errorf("mock: invalid result of %s: %w", s.subject, err)
		}
		result.Source = raw
		return result, nil
	})
}

// transient begins the names of entries that exist for a moment to change a list. They are hidden.
const transient = "parley_mock_transient_"

// change notifies the clients that a list has changed. The list stays the same.
func (m *Mock) change(list string) error {
	name := fmt.Sprint(transient, m.changes.Add(1))
	switch list {
	case "resources":
		uri := "mock:" + name
		err := m.server.RegisterResource(mcp.Resource{URI: uri, Name: name}, func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil })
		m.server.RemoveResource(uri)
		return err
	case "prompts":
		err := m.server.RegisterPrompt(mcp.Prompt{Name: name}, func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
		m.server.RemovePrompt(name)
		return err
	}
	err := m.server.ForwardTool(mcp.Tool{Name: name}, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
	m.server.RemoveTool(name)
	return err
}
