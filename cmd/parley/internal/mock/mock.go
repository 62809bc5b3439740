// Package mock serves a server that a YAML file describes or that was recorded.
package mock

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// linked has the functions of a server that programs do not need.
var linked = link.Get[link.Server[server.Server, server.ToolHandler, server.ToolOption]]()

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
	m := &Mock{server: s, logger: o.Logger, hidden: make(map[string]bool), names: make(map[string][]string),
		others: make(map[string]*script)}
	if m.logger == nil {
		m.logger = slog.Default()
	}
	s.Logger = m.logger
	s.Middleware = append(s.Middleware, m.middleware)
	linked.Hooks(s).Hide = func(principal.Principal) func(string, string) bool {
		return func(list, name string) bool {
			return strings.HasPrefix(strings.TrimPrefix(name, "mock:"), transient) || m.hidden[list+" "+name]
		}
	}
	return m
}

// Server returns the server. Serve it with [Mock.Handler] or [Mock.ServeConn], which cause the faults of connections.
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
	handler := func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
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
	}
	return linked.ForwardTool(m.server, tool, handler, options...)
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
	server.AddTemplate(m.server, t,
		func(ctx context.Context, variables map[string]string) (*mcp.ReadResourceResult, error) {
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
	return m.server.RegisterPrompt(p,
		func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
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
		err := m.server.RegisterResource(mcp.Resource{URI: uri, Name: name},
			func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil })
		m.server.RemoveResource(uri)
		return err
	case "prompts":
		err := m.server.RegisterPrompt(mcp.Prompt{Name: name},
			func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
		m.server.RemovePrompt(name)
		return err
	}
	err := linked.ForwardTool(m.server, mcp.Tool{Name: name},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
	m.server.RemoveTool(name)
	return err
}

// Load returns the mock that the file at path describes: a YAML file, or a recording. A recording is recognised by
// its first line.
func Load(path string, o Options) (*Mock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !traffic.IsRecording(f) {
		d, err := yamldoc.Read(path)
		if err != nil {
			return nil, err
		}
		return FromYAML(d, o)
	}
	h, entries, err := traffic.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := FromRecording(h, entries, o)
	if err != nil {
		return nil, fmt.Errorf("cannot mock the server of the recording %s: %w", path, err)
	}
	return m, nil
}

// file is the content of a YAML file; schema.json describes it.
type file struct {
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	Title        string         `json:"title"`
	Instructions string         `json:"instructions"`
	Latency      time.Duration  `json:"latency"`
	Tools        []toolEntry    `json:"tools"`
	Resources    []docEntry     `json:"resources"`
	Templates    []docEntry     `json:"templates"`
	Prompts      []promptEntry  `json:"prompts"`
	Requests     []requestEntry `json:"requests"`
}

type toolEntry struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
	Task         string          `json:"task"`
	Responses    []responseEntry `json:"responses"`
}

// docEntry is a resource or a template.
type docEntry struct {
	URI         string              `json:"uri"`
	URITemplate string              `json:"uriTemplate"`
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	MimeType    string              `json:"mimeType"`
	Complete    map[string][]string `json:"complete"`
	Text        *string             `json:"text"`
	Blob        *string             `json:"blob"`
	Responses   []responseEntry     `json:"responses"`
}

type promptEntry struct {
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	Arguments   []argumentEntry     `json:"arguments"`
	Complete    map[string][]string `json:"complete"`
	Text        *string             `json:"text"`
	Responses   []responseEntry     `json:"responses"`
}

type argumentEntry struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

type requestEntry struct {
	Method string `json:"method"`
	Name   string `json:"name"`
	outcomeEntry
}

// outcomeEntry has the members that requests and responses have in common.
type outcomeEntry struct {
	Times      int             `json:"times"`
	Latency    *time.Duration  `json:"latency"`
	Result     json.RawMessage `json:"result"`
	Error      *errorEntry     `json:"error"`
	Fault      string          `json:"fault"`
	Status     int             `json:"status"`
	RetryAfter time.Duration   `json:"retryAfter"`
}

type errorEntry struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

type responseEntry struct {
	When              json.RawMessage `json:"when"`
	Steps             []stepEntry     `json:"steps"`
	Text              *string         `json:"text"`
	Content           json.RawMessage `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	Blob              *string         `json:"blob"`
	Messages          json.RawMessage `json:"messages"`
	outcomeEntry
}

type stepEntry struct {
	Wait     *time.Duration  `json:"wait"`
	Progress *float64        `json:"progress"`
	Total    float64         `json:"total"`
	Message  string          `json:"message"`
	Log      json.RawMessage `json:"log"`
	Level    string          `json:"level"`
	Logger   string          `json:"logger"`
	Elicit   *string         `json:"elicit"`
	Schema   json.RawMessage `json:"schema"`
	Sample   *string         `json:"sample"`
	Roots    bool            `json:"roots"`
	Changed  string          `json:"changed"`
	Updated  string          `json:"updated"`
}

// SchemaURI identifies the JSON Schema of the YAML files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/internal/mock/schema.json"

// Schema is the JSON Schema of the YAML files.
//
//go:embed schema.json
var Schema []byte

var compiledSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(Schema) })

// maxExpanded is the limit of the values that references in one result are replaced by, in bytes.
const maxExpanded = 4 << 20

// expand replaces references such as ${NAME} in the strings of a JSON value. A string below structuredContent
// that is only a reference becomes the value itself.
func expand(text json.RawMessage, values map[string]json.RawMessage) json.RawMessage {
	left := maxExpanded
	return traffic.Edit(text, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if !strings.Contains(value, "${") {
			return nil, false
		}
		if name, ok := onlyReference(value); ok && strings.HasPrefix(string(place), "/structuredContent/") {
			value, known := values[name]
			return value, known
		}
		return jsonrpc.AppendString(nil, expandText(value, values, &left)), true
	})
}

// onlyReference returns the name if a string is one reference.
func onlyReference(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "${")
	if !ok || !strings.HasSuffix(name, "}") {
		return "", false
	}
	name = name[:len(name)-1]
	return name, !strings.ContainsAny(name, "${}")
}

// expandText replaces the references in a text. A reference to an unknown name remains, and $${ is a literal ${.
func expandText(text string, values map[string]json.RawMessage, left *int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		switch value, known := values[name]; {
		case !found:
			b.WriteString(text)
			return b.String()
		case strings.HasSuffix(before, "$"):
			b.WriteString(before[:len(before)-1] + "${")
			text = rest
		case !closed || !known || len(value) > *left:
			b.WriteString(before + "${")
			text = rest
		default:
			*left -= len(value)
			b.WriteString(before + textOf(value))
			text = after
		}
	}
}

// textOf returns a string without quotation marks, and another value as JSON.
func textOf(value json.RawMessage) string {
	if len(value) > 0 && value[0] == '"' {
		return jsonrpc.Unquote(value)
	}
	return string(value)
}
