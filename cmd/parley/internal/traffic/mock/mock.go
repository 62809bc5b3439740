// Package mock serves a server that a YAML file describes or that was recorded. A [Mock] is a server.Server whose
// tools, resources and prompts play scripts: yaml.go reads them from a YAML file, and recorded.go from a recording.

package mock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/yamldoc"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Mock is a server whose responses come from a YAML file or a recording. It is safe for concurrent use.
type Mock struct {
	server  *server.Server
	logger  *slog.Logger
	latency time.Duration
	// of what lists have, by the method that uses them; of templates, by that of their list
	names    map[string][]string
	unlisted map[string]*script // the scripts of other requests in a recording, by subject
	changes  atomic.Int64
}

// Load returns the mock that the file at path describes: a YAML file, or a recording. A recording is recognised by
// its first line. The logger receives a warning for each request without a response.
func Load(path string, logger *slog.Logger) (*Mock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !recording.IsRecording(f) {
		d, err := yamldoc.Read(path)
		if err != nil {
			return nil, err
		}
		return fromYAML(d, logger)
	}
	h, entries, err := recording.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := fromRecording(h, entries, logger)
	if err != nil {
		return nil, fmt.Errorf("cannot mock the server in the recording %s: %w", path, err)
	}
	return m, nil
}

// newMock returns a mock without definitions.
func newMock(s *server.Server, logger *slog.Logger) *Mock {
	m := &Mock{server: s, logger: logger, names: make(map[string][]string), unlisted: make(map[string]*script)}
	s.Logger = logger
	s.Middleware = append(s.Middleware, m.middleware)
	return m
}

// Server returns the server.
func (m *Mock) Server() *server.Server { return m.server }

// Summary returns the numbers of tools, resources, templates and prompts, such as "2 tools, 1 prompt".
func (m *Mock) Summary() string {
	var words []string
	for _, kind := range [][2]string{{mcp.MethodCallTool, "tool"}, {mcp.MethodReadResource, "resource"},
		{mcp.MethodListResourceTemplates, "template"}, {mcp.MethodGetPrompt, "prompt"}} {
		if n := len(m.names[kind[0]]); n > 0 {
			words = append(words, terminal.Count(n, kind[1]))
		}
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// resultOf plays a script and decodes its result. Given is the object of the arguments as the client has sent it.
func resultOf[T any](ctx context.Context, m *Mock, s *script, arguments map[string]json.RawMessage,
	given json.RawMessage) (*T, json.RawMessage, error) {
	raw, err := m.play(ctx, s, arguments, given)
	if err != nil {
		return nil, nil, err
	}
	result := new(T)
	if err := jsonv2.Unmarshal(raw, result); err != nil {
		return nil, nil, fmt.Errorf("mock: invalid result of %s: %w", s.subject, err)
	}
	return result, raw, nil
}

func (m *Mock) addTool(tool mcp.Tool, s *script, options ...server.Option) error {
	m.names[mcp.MethodCallTool] = append(m.names[mcp.MethodCallTool], tool.Name)
	handler := func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, raw, err := resultOf[mcp.CallToolResult](ctx, m, s, argumentsOf(arguments), arguments)
		if err == nil {
			result.Source = raw
		}
		return result, err
	}
	return m.server.RegisterTool(tool, handler, append(options, server.Forwarded(nil))...)
}

func (m *Mock) addResource(r mcp.Resource, s *script) error {
	m.names[mcp.MethodReadResource] = append(m.names[mcp.MethodReadResource], r.URI)
	return m.server.RegisterResource(r, func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		return m.read(ctx, s, map[string]string{"uri": uri})
	})
}

// addTemplate adds a template, whose variables are the arguments of the script.
func (m *Mock) addTemplate(t mcp.ResourceTemplate, s *script, options ...server.Option) (err error) {
	m.names[mcp.MethodListResourceTemplates] = append(m.names[mcp.MethodListResourceTemplates], t.URITemplate)
	defer func() { // AddTemplate panics where the methods of a server return an error
		switch p := recover().(type) {
		case nil:
		case string:
			err = errors.New(strings.TrimPrefix(p, "server: "))
		default:
			panic(p)
		}
	}()
	server.AddTemplate(m.server, t,
		func(ctx context.Context, variables map[string]string) (*mcp.ReadResourceResult, error) {
			return m.read(ctx, s, variables)
		}, options...)
	return nil
}

func (m *Mock) read(ctx context.Context, s *script, variables map[string]string) (*mcp.ReadResourceResult, error) {
	result, _, err := resultOf[mcp.ReadResourceResult](ctx, m, s, argumentsOfTexts(variables), nil)
	return result, err
}

func (m *Mock) addPrompt(p mcp.Prompt, s *script, options ...server.Option) error {
	m.names[mcp.MethodGetPrompt] = append(m.names[mcp.MethodGetPrompt], p.Name)
	return m.server.RegisterPrompt(p,
		func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
			result, raw, err := resultOf[mcp.GetPromptResult](ctx, m, s, argumentsOfTexts(arguments), nil)
			if err == nil {
				result.Source = raw
			}
			return result, err
		}, options...)
}

// change notifies the clients that a list has changed: it adds an entry, and removes it.
func (m *Mock) change(list string) error {
	name := fmt.Sprint("parley_mock_transient_", m.changes.Add(1))
	switch list {
	case "resources":
		uri := "mock:" + name
		defer m.server.RemoveResource(uri)
		return m.server.RegisterResource(mcp.Resource{URI: uri, Name: name},
			func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil })
	case "prompts":
		defer m.server.RemovePrompt(name)
		return m.server.RegisterPrompt(mcp.Prompt{Name: name},
			func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	}
	defer m.server.RemoveTool(name)
	return m.server.RegisterTool(mcp.Tool{Name: name},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
}

// middleware causes the latencies of requests, and plays the scripts of those that the server does not know.
func (m *Mock) middleware(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if c.ID().IsZero() {
			return next(ctx, c)
		}
		if !hasScript(c.Method()) { // the response has its own
			if err := sleep(ctx, m.latency); err != nil {
				return nil, err
			}
		}
		var result any
		var err error
		params := c.Params().Raw()
		if s := m.unlisted[subjectOf(c.Method(), params)]; s == nil {
			result, err = next(ctx, c)
		} else {
			result, err = m.play(ctx, s, matchedBy(c.Method(), params), params)
		}
		return result, m.unknown(c, err)
	}
}

// hasScript reports whether a tool, prompt or resource answers the requests of a method.
func hasScript(method string) bool {
	return method == mcp.MethodCallTool || method == mcp.MethodGetPrompt || method == mcp.MethodReadResource
}

// unknown adds the known names to the error for an unknown tool, prompt or resource, and logs it.
func (m *Mock) unknown(c *call.Call, err error) error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	known := m.names[c.Method()]
	if !ok || !hasScript(c.Method()) || slices.Contains(known, c.Name()) || strings.HasPrefix(wire.Message, "mock: ") ||
		wire.Code != jsonrpc.CodeInvalidParams && wire.Code != mcp.CodeResourceNotFound {
		return err
	}
	m.logger.Warn("unknown name in a request", "request", c.Method(), "name", c.Name())
	for subject := range m.unlisted {
		if name, ok := strings.CutPrefix(subject, c.Method()+" "); ok {
			known = append(slices.Clip(known), name)
		}
	}
	names := slices.Sorted(slices.Values(known))
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], "…")
	}
	if names == nil {
		names = []string{"none"}
	}
	named := *wire
	named.Message += "; the mock has " + strings.Join(names, ", ")
	return &named
}

// play selects the response to a request, does its steps, and returns its result, or an error for the client. Given
// is the object of the arguments as the client has sent it.
func (m *Mock) play(ctx context.Context, s *script, arguments map[string]json.RawMessage,
	given json.RawMessage) (json.RawMessage, error) {
	r, err := m.choose(ctx, s, arguments)
	if err != nil {
		return nil, err
	}
	for i := range r.Steps {
		if err := m.do(ctx, &r.Steps[i], r.recorded, arguments); err != nil {
			return nil, err
		}
	}
	latency := m.latency
	if r.Latency != nil {
		latency = *r.Latency
	}
	if err := sleep(ctx, latency); err != nil {
		return nil, err
	}
	if r.echo {
		return jsonv2.Marshal(&mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(given))},
			StructuredContent: given})
	}
	return r.end(arguments)
}

// choose returns the next response of a script. In 2026-07-28 the handler of a call runs again after a question,
// and gets the same response then.
func (m *Mock) choose(ctx context.Context, s *script, arguments map[string]json.RawMessage) (*response, error) {
	next := func(context.Context, string) (int, error) {
		i, err := s.next(arguments)
		if err != nil {
			m.logger.Warn("no response matches the request", "request", s.subject, "arguments", describe(arguments))
		}
		return i, err
	}
	var i int
	var err error
	if s.asks() {
		i, err = server.Once(ctx, "mock", next)
	} else {
		i, err = next(ctx, "")
	}
	switch {
	case err != nil:
		return nil, err
	case i < 0 || i >= len(s.responses):
		return nil, fmt.Errorf("mock: %s has no response %d", s.subject, i)
	}
	return s.responses[i], nil
}

// do does one step. Values contains the values of references, which do not occur in recordings.
func (m *Mock) do(ctx context.Context, s *step, recorded bool, values map[string]json.RawMessage) error {
	expand, expandText := expand, expandText
	if recorded {
		expand = func(text json.RawMessage, _ map[string]json.RawMessage) json.RawMessage { return text }
		expandText = func(text string, _ map[string]json.RawMessage) string { return text }
	}
	var options []server.AskOption
	if s.key != "" {
		options = append(options, server.Keyed(s.key))
	}
	switch {
	case s.Wait != nil:
		return sleep(ctx, *s.Wait)
	case s.Progress != nil:
		_ = server.Progress(ctx, *s.Progress, s.Total, expandText(s.Message, values)) // the client may not want it
	case s.Log != nil:
		_ = server.Log(ctx, mcp.LoggingMessageParams{Level: cmp.Or(s.Level, mcp.LevelInfo), Logger: s.Logger,
			Data: expand(s.Log, values)})
	case s.url != "":
		return answered(server.ElicitURL(ctx, s.url, *s.Elicit, nil, options...), recorded)
	case s.Elicit != nil:
		content, err := server.ElicitForm(ctx, expandText(*s.Elicit, values), s.Schema, options...)
		for name, value := range jsonrpc.All(content) {
			values[name] = value
		}
		return answered(err, recorded)
	case s.sample != nil:
		var params mcp.CreateMessageParams
		if err := jsonv2.Unmarshal(expand(s.sample, values), &params); err != nil {
			return fmt.Errorf("mock: invalid request for sampling: %w", err)
		}
		answer, err := server.Sample(ctx, params, options...)
		if err != nil {
			return answered(err, recorded)
		}
		text := ""
		for _, c := range answer.Content {
			if t, ok := c.(*mcp.TextContent); ok && text == "" {
				text = t.Text
			}
		}
		values["sample"] = jsonrpc.AppendString(nil, text)
	case s.Roots:
		roots, err := server.Roots(ctx, options...)
		if err != nil {
			return answered(err, recorded)
		}
		values["roots"], err = json.Marshal(roots)
		return err
	case s.Changed != "":
		return m.change(s.Changed)
	case s.Updated != "":
		m.server.ResourceUpdated(s.Updated)
	}
	return nil
}

// answered returns the error of a question. After any answer, a recording has the recorded result.
func answered(err error, recorded bool) error {
	isAnswer := errors.Is(err, server.ErrDeclined) || errors.Is(err, server.ErrDismissed) ||
		errors.Is(err, server.ErrBadAnswer) || errors.As(err, new(*call.AnswerError))
	if recorded && isAnswer {
		return nil
	}
	return err
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
