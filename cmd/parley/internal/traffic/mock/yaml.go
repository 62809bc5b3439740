package mock

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/yamldoc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// file is the content of a YAML file; schema.json describes it. The definitions in it look as in the protocol.
type file struct {
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	Title        string        `json:"title"`
	Instructions string        `json:"instructions"`
	Latency      time.Duration `json:"latency"`
	Tools        []entry       `json:"tools"`
	Resources    []entry       `json:"resources"`
	Templates    []entry       `json:"templates"`
	Prompts      []entry       `json:"prompts"`
}

// entry is a tool, resource, template or prompt, without its definition.
type entry struct {
	Task      string              `json:"task"`
	Complete  map[string][]string `json:"complete"`
	Text      *string             `json:"text"`
	Blob      *string             `json:"blob"`
	Responses []*response         `json:"responses"`
}

// Schema is the JSON Schema of the YAML files.
//
//go:embed schema.json
var Schema []byte

var compiledSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(Schema) })

// fromYAML returns the mock that a YAML document describes. The errors have the lines of the file, one for each
// mistake.
func fromYAML(d *yamldoc.Document, logger *slog.Logger) (*Mock, error) {
	by, err := compiledSchema()
	if err != nil {
		return nil, err
	}
	var f file
	if err := d.Decode(by, &f); err != nil {
		return nil, err
	}
	var defined struct {
		Tools     []mcp.Tool             `json:"tools"`
		Resources []mcp.Resource         `json:"resources"`
		Templates []mcp.ResourceTemplate `json:"templates"`
		Prompts   []mcp.Prompt           `json:"prompts"`
	}
	if err := jsonv2.Unmarshal(d.JSON, &defined); err != nil {
		return nil, d.Errorf("", "%w", err)
	}
	b := builder{document: d, mock: newMock(&server.Server{
		Name: cmp.Or(f.Name, "parley-mock"), Version: cmp.Or(f.Version, "1.0.0"),
		Info: mcp.Implementation{Title: f.Title}, Instructions: f.Instructions,
	}, logger)}
	b.mock.latency = f.Latency
	for i := range f.Tools {
		b.tool(at("tools", i), defined.Tools[i], &f.Tools[i])
	}
	for i := range f.Resources {
		b.resource(at("resources", i), defined.Resources[i], &f.Resources[i])
	}
	for i := range f.Templates {
		b.template(at("templates", i), defined.Templates[i], &f.Templates[i])
	}
	for i := range f.Prompts {
		b.prompt(at("prompts", i), defined.Prompts[i], &f.Prompts[i])
	}
	return b.mock, errors.Join(b.errs...)
}

func at(list string, i int) jsontext.Pointer { return jsontext.Pointer(fmt.Sprintf("/%s/%d", list, i)) }

// builder builds a mock from a YAML file.
type builder struct {
	document *yamldoc.Document
	mock     *Mock
	errs     []error
}

func (b *builder) fail(place jsontext.Pointer, err error) {
	if err != nil {
		b.errs = append(b.errs, b.document.Errorf(place, "%s: %w", place[1:], err))
	}
}

func (b *builder) tool(place jsontext.Pointer, tool mcp.Tool, e *entry) {
	if tool.InputSchema == nil {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	b.checkSchema(place+"/inputSchema", tool.InputSchema)
	var output *schema.Schema
	if tool.OutputSchema != nil {
		output = b.checkSchema(place+"/outputSchema", tool.OutputSchema)
	}
	var options []server.Option
	if e.Task != "" {
		options = append(options, server.AsTask(server.TaskOptions{Support: mcp.TaskSupport(e.Task)}))
	}
	s := b.script("tools/call "+tool.Name, place, e.Responses,
		[]string{"text", "content", "structuredContent", "isError"},
		func(r *response) (json.RawMessage, error) { return toolResult(r, output) })
	if len(e.Responses) == 0 {
		s.responses = []*response{{echo: true}}
	}
	b.fail(place, b.mock.addTool(tool, s, options...))
}

// checkSchema compiles a schema of a tool.
func (b *builder) checkSchema(place jsontext.Pointer, text json.RawMessage) *schema.Schema {
	compiled, err := schema.Compile(text)
	if err == nil && !compiled.IsObject() {
		err = errors.New(`type must be "object"`)
	}
	b.fail(place, err)
	return compiled
}

// toolResult returns the result of a tool, or nil if the response has none.
func toolResult(r *response, output *schema.Schema) (json.RawMessage, error) {
	if r.Text == nil && r.Content == nil && r.StructuredContent == nil {
		if r.IsError {
			return nil, errors.New("a response with isError needs a text")
		}
		return nil, nil
	}
	var content []any
	if r.Content != nil {
		if err := jsonv2.Unmarshal(r.Content, &content); err != nil {
			return nil, err
		}
	}
	text := r.Text
	if text == nil && r.Content == nil { // as typed tools do
		text = new(string(r.StructuredContent))
	}
	if text != nil {
		content = append([]any{map[string]string{"type": "text", "text": *text}}, content...)
	}
	if output != nil && r.StructuredContent != nil && !r.IsError && !bytes.Contains(r.StructuredContent, []byte("${")) {
		if err := output.Validate(r.StructuredContent); err != nil {
			return nil,
				fmt.Errorf("the structured content does not match the output schema: %w", err)
		}
	}
	result, err := jsonv2.Marshal(struct {
		Content           []any           `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
		IsError           bool            `json:"isError,omitzero"`
	}{content, r.StructuredContent, r.IsError})
	if err != nil {
		return nil, err
	}
	return result, new(mcp.CallToolResult).UnmarshalJSON(result)
}

func (b *builder) resource(place jsontext.Pointer, r mcp.Resource, e *entry) {
	r.Name = cmp.Or(r.Name, r.URI)
	b.fail(place, b.mock.addResource(r, b.contents("resources/read "+r.URI, place, e)))
}

func (b *builder) template(place jsontext.Pointer, t mcp.ResourceTemplate, e *entry) {
	t.Name = cmp.Or(t.Name, t.URITemplate)
	b.fail(place, b.mock.addTemplate(t, b.contents("resources/read "+t.URITemplate, place, e), e.completions()...))
}

// contents returns the script of a resource or template.
func (b *builder) contents(subject string, place jsontext.Pointer, e *entry) *script {
	return b.script(subject, place, b.responses(place, e), []string{"text", "blob"},
		func(r *response) (json.RawMessage, error) {
			member, value := "text", r.Text
			if r.Blob != nil {
				member, value = "blob", r.Blob
				if _, err := base64.StdEncoding.DecodeString(*r.Blob); err != nil {
					return nil, fmt.Errorf("blob must be base64: %w", err)
				}
			}
			if r.Text == nil && r.Blob == nil {
				return nil, nil
			}
			return json.Marshal(map[string]any{"contents": []any{map[string]string{"uri": "", member: *value}}})
		})
}

func (b *builder) prompt(place jsontext.Pointer, p mcp.Prompt, e *entry) {
	s := b.script("prompts/get "+p.Name, place, b.responses(place, e), []string{"text", "messages"},
		func(r *response) (json.RawMessage, error) {
			messages := r.Messages
			if r.Text != nil {
				messages = fmt.Appendf(nil, `[{"role":"user","content":{"type":"text","text":%s}}]`,
					jsonrpc.AppendString(nil, *r.Text))
			}
			if messages == nil {
				return nil, nil
			}
			result := json.RawMessage(`{"messages":` + string(messages) + `}`)
			return result, jsonv2.Unmarshal(result, new(mcp.GetPromptResult))
		})
	b.fail(place, b.mock.addPrompt(p, s, e.completions()...))
}

// completions returns the options for the completion of a prompt or template.
func (e *entry) completions() []server.Option {
	var options []server.Option
	for name, values := range e.Complete {
		options = append(options, server.CompleteFrom(name, values...))
	}
	return options
}

// responses returns the responses of an entry, which can have one without conditions as its own members.
func (b *builder) responses(place jsontext.Pointer, e *entry) []*response {
	switch hasOwn := e.Text != nil || e.Blob != nil; {
	case hasOwn && e.Responses != nil:
		b.fail(place+"/responses",
			errors.New("the entry must not have text or blob and responses; move them into a response"))
	case hasOwn:
		return []*response{{Text: e.Text, Blob: e.Blob}}
	case e.Responses == nil:
		b.fail(place, errors.New("responses or text is missing"))
	}
	return e.Responses
}

// script returns the script of some responses. Members are those that a result of this kind has, and result returns the
// result of a response, or nil if it has none.
func (b *builder) script(subject string, place jsontext.Pointer, entries []*response, members []string,
	result func(*response) (json.RawMessage, error)) *script {
	for i, r := range entries {
		place := place + at("responses", i)
		r.when = argumentsOf(r.When)
		for j := range r.Steps {
			b.step(place+at("steps", j), &r.Steps[j])
		}
		err := r.only(members)
		if err == nil {
			r.result, err = result(r)
		}
		b.fail(place, err)
		if err == nil && (r.result == nil) == (r.Error == nil) {
			b.fail(place, fmt.Errorf("the response must have either an error or one of %s",
				strings.TrimSuffix(strings.Join(members, ", "), ", isError")))
		}
	}
	return &script{subject: subject, responses: entries}
}

// only returns an error if a response has a member for the results of another kind of request.
func (e *response) only(allowed []string) error {
	for _, m := range []struct {
		name string
		set  bool
	}{
		{"content", e.Content != nil}, {"structuredContent", e.StructuredContent != nil}, {"isError", e.IsError},
		{"blob", e.Blob != nil}, {"messages", e.Messages != nil},
	} {
		if m.set && !slices.Contains(allowed, m.name) {
			return fmt.Errorf("%s has no effect here; use %s", m.name, strings.Join(allowed, ", "))
		}
	}
	if e.Text != nil && (e.Blob != nil || e.Messages != nil) {
		return errors.New("text must not be set together with blob or messages")
	}
	return nil
}

// step checks and completes a step.
func (b *builder) step(place jsontext.Pointer, s *step) {
	switch {
	case s.Elicit != nil && s.Schema == nil:
		s.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	case s.Elicit != nil:
		if _, err := mcp.ParseElicitSchema(s.Schema); err != nil {
			b.fail(place+"/schema", err)
		}
	case s.Sample != nil:
		s.sample = fmt.Appendf(nil,
			`{"maxTokens":1000,"messages":[{"role":"user","content":{"type":"text","text":%s}}]}`,
			jsonrpc.AppendString(nil, *s.Sample))
	}
}
