package mock

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// FromYAML returns the mock that a YAML document describes. The errors have the lines of the file, one for each
// mistake.
func FromYAML(d *yamldoc.Document, o Options) (*Mock, error) {
	by, err := compiledSchema()
	if err != nil {
		return nil, err
	}
	var f file
	if err := d.Decode(by, &f); err != nil {
		return nil, err
	}
	b := builder{document: d, mock: newMock(&server.Server{
		Name: orDefault(f.Name, "parley-mock"), Version: orDefault(f.Version, "1.0.0"), Title: f.Title,
		Instructions: f.Instructions,
	}, o)}
	b.mock.latency = f.Latency
	for i := range f.Tools {
		b.tool(at("tools", i), &f.Tools[i])
	}
	for i := range f.Resources {
		b.resource(at("resources", i), &f.Resources[i])
	}
	for i := range f.Templates {
		b.template(at("templates", i), &f.Templates[i])
	}
	for i := range f.Prompts {
		b.prompt(at("prompts", i), &f.Prompts[i])
	}
	for i := range f.Requests {
		b.request(at("requests", i), &f.Requests[i])
	}
	return b.mock, errors.Join(b.errs...)
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
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

func (b *builder) tool(place jsontext.Pointer, e *toolEntry) {
	tool := mcp.Tool{Name: e.Name, Title: e.Title, Description: e.Description, InputSchema: e.InputSchema,
		OutputSchema: e.OutputSchema}
	if e.InputSchema == nil {
		tool.InputSchema = anyArguments
	} else {
		b.checkSchema(place+"/inputSchema", e.InputSchema)
	}
	var output *schema.Schema
	if e.OutputSchema != nil {
		output = b.checkSchema(place+"/outputSchema", e.OutputSchema)
	}
	if e.Annotations != nil {
		b.fail(place+"/annotations", jsonv2.Unmarshal(e.Annotations, &tool.Annotations))
	}
	var options []server.ToolOption
	if e.Task != "" {
		options = append(options, server.AsTask(server.TaskOptions{Support: e.Task}))
	}
	s := b.script("tools/call "+e.Name, place, e.Responses,
		func(place jsontext.Pointer, r *responseEntry) (json.RawMessage, error) {
			return b.toolResult(place, r, output)
		})
	if len(e.Responses) == 0 {
		s.responses = []*response{{echo: true}}
	}
	b.fail(place, b.mock.addTool(tool, s, options...))
}

// anyArguments is the input schema of a tool without one.
var anyArguments = json.RawMessage(`{"type":"object"}`)

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
func (b *builder) toolResult(place jsontext.Pointer, r *responseEntry, output *schema.Schema) (json.RawMessage, error) {
	if err := r.only("text", "content", "structuredContent", "isError"); err != nil {
		return nil, err
	}
	if r.Text == nil && r.Content == nil && r.StructuredContent == nil {
		if r.IsError {
			return nil, errors.New("isError needs a text")
		}
		return nil, nil
	}
	text := r.Text
	if text == nil && r.Content == nil { // as typed tools do
		text = new(string(r.StructuredContent))
	}
	content := bytes.TrimSpace(r.Content)
	if text != nil {
		block, err := json.Marshal(map[string]string{"type": "text", "text": *text})
		if err != nil {
			return nil, err
		}
		if len(content) <= len("[]") {
			content = append(append([]byte("["), block...), ']')
		} else {
			content = append(append(append([]byte("["), block...), ','), content[1:]...)
		}
	}
	result := append([]byte(`{"content":`), content...)
	if r.StructuredContent != nil {
		result = append(append(result, `,"structuredContent":`...), r.StructuredContent...)
		if output != nil && !r.IsError && !bytes.Contains(r.StructuredContent, []byte("${")) {
			if err := output.Validate(r.StructuredContent); err != nil {
				return nil,
					fmt.Errorf("the structured content does not match the output schema: %w; use result to send it "+
						"all "+
						"the same", err)
			}
		}
	}
	if r.IsError {
		result = append(result, `,"isError":true`...)
	}
	result = append(result, '}')
	return result, new(mcp.CallToolResult).UnmarshalJSON(result)
}

func (b *builder) resource(place jsontext.Pointer, e *docEntry) {
	r := mcp.Resource{URI: e.URI, Name: orDefault(e.Name, e.URI), Title: e.Title, Description: e.Description,
		MimeType: e.MimeType}
	b.fail(place, b.mock.addResource(r, b.contents("resources/read "+e.URI, place, e)))
}

func (b *builder) template(place jsontext.Pointer, e *docEntry) {
	t := mcp.ResourceTemplate{URITemplate: e.URITemplate, Name: orDefault(e.Name, e.URITemplate), Title: e.Title,
		Description: e.Description, MimeType: e.MimeType}
	if err := b.mock.addTemplate(t, b.contents("resources/read "+e.URITemplate, place, e)); err != nil {
		b.fail(place, err)
		return
	}
	b.complete(place, mcp.CompleteReference{Type: mcp.RefResource, URI: e.URITemplate}, e.Complete)
}

// contents returns the script of a resource or template.
func (b *builder) contents(subject string, place jsontext.Pointer, e *docEntry) *script {
	responses := b.shorthand(place, e.Responses, responseEntry{Text: e.Text, Blob: e.Blob})
	return b.script(subject, place, responses, func(_ jsontext.Pointer, r *responseEntry) (json.RawMessage, error) {
		if err := r.only("text", "blob"); err != nil {
			return nil, err
		}
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

func (b *builder) prompt(place jsontext.Pointer, e *promptEntry) {
	p := mcp.Prompt{Name: e.Name, Title: e.Title, Description: e.Description}
	for _, a := range e.Arguments {
		p.Arguments = append(p.Arguments,
			mcp.PromptArgument{Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required})
	}
	responses := b.shorthand(place, e.Responses, responseEntry{Text: e.Text})
	s := b.script("prompts/get "+e.Name, place, responses,
		func(_ jsontext.Pointer, r *responseEntry) (json.RawMessage, error) {
			if err := r.only("text", "messages"); err != nil {
				return nil, err
			}
			messages := r.Messages
			if r.Text != nil {
				text, err := json.Marshal(*r.Text)
				if err != nil {
					return nil, err
				}
				messages = json.RawMessage(`[{"role":"user","content":{"type":"text","text":` + string(text) + `}}]`)
			}
			if messages == nil {
				return nil, nil
			}
			result := json.RawMessage(`{"messages":` + string(messages) + `}`)
			return result, jsonv2.Unmarshal(result, new(mcp.GetPromptResult))
		})
	if err := b.mock.addPrompt(p, s); err != nil {
		b.fail(place, err)
		return
	}
	b.complete(place, mcp.CompleteReference{Type: mcp.RefPrompt, Name: e.Name}, e.Complete)
}

func (b *builder) complete(place jsontext.Pointer, ref mcp.CompleteReference, values map[string][]string) {
	for name, list := range values {
		suggest := server.CompleteFrom(list...)
		b.fail(place+"/complete", b.mock.server.RegisterCompletion(ref, name,
			func(ctx context.Context, value string, arguments map[string]string) (*mcp.Completion, error) {
				values, err := suggest(ctx, value, arguments)
				return &mcp.Completion{Values: values}, err
			}))
	}
}

// shorthand returns the responses of an entry, which can have one response without conditions as its own members.
func (b *builder) shorthand(place jsontext.Pointer, responses []responseEntry, own responseEntry) []responseEntry {
	switch hasOwn := own.Text != nil || own.Blob != nil; {
	case hasOwn && responses != nil:
		b.fail(place+"/responses",
			errors.New("the entry must not have text or blob and responses; move them into a response"))
	case hasOwn:
		return []responseEntry{own}
	case responses == nil:
		b.fail(place, errors.New("responses or text is missing"))
	}
	return responses
}

// script returns the script of some responses. result returns the result of one, or nil if it has none.
func (b *builder) script(subject string, place jsontext.Pointer, entries []responseEntry,
	result func(jsontext.Pointer, *responseEntry) (json.RawMessage, error)) *script {
	s := &script{subject: subject}
	for i := range entries {
		e, place := &entries[i], place+at("responses", i)
		r := &response{times: e.Times, latency: e.Latency, when: argumentsOf(e.When), template: true}
		for j := range e.Steps {
			r.steps = append(r.steps, b.step(place+at("steps", j), &e.Steps[j]))
		}
		var err error
		if r.outcome, err = e.outcome(); err != nil {
			b.fail(place, err)
		}
		if r.result, err = result(place, e); err != nil {
			b.fail(place, err)
		}
		if n := r.outcome.ends(); n != 1 {
			b.fail(place, fmt.Errorf("the response must have one of text, %sresult, error, fault and status, not %d",
				e.kinds(subject), n))
		}
		s.responses = append(s.responses, r)
	}
	return s
}

// kinds returns the members with results of a kind of request, for errors.
func (e *responseEntry) kinds(subject string) string {
	switch {
	case strings.HasPrefix(subject, mcp.MethodCallTool):
		return "content, structuredContent, "
	case strings.HasPrefix(subject, mcp.MethodGetPrompt):
		return "messages, "
	}
	return "blob, "
}

// only returns an error if a response has a member for the results of another kind of request.
func (e *responseEntry) only(allowed ...string) error {
	for _, m := range []struct {
		name string
		set  bool
	}{
		{"content", e.Content != nil}, {"structuredContent", e.StructuredContent != nil}, {"isError", e.IsError},
		{"blob", e.Blob != nil}, {"messages", e.Messages != nil},
	} {
		if m.set && !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+m.name+" ") {
			return fmt.Errorf("%s has no effect here; use %s", m.name, strings.Join(allowed, ", "))
		}
	}
	if e.Text != nil && (e.Blob != nil || e.Messages != nil) {
		return errors.New("text must not be set together with blob or messages")
	}
	return nil
}

// outcome returns the outcome of an entry, without the result of a response.
func (e *outcomeEntry) outcome() (outcome, error) {
	o := outcome{raw: e.Result, fault: e.Fault, status: e.Status, retryAfter: e.RetryAfter}
	if e.Error != nil {
		o.err = &jsonrpc.Error{Code: e.Error.Code, Message: e.Error.Message, Data: e.Error.Data}
	}
	if e.RetryAfter != 0 && e.Status == 0 && e.Fault != rateLimit {
		return o, errors.New("retryAfter needs status or the fault rate-limit")
	}
	return o, nil
}

// ends returns how many ends an outcome has.
func (o *outcome) ends() int {
	n := 0
	for _, set := range []bool{o.result != nil, o.raw != nil, o.err != nil, o.fault != "", o.status != 0} {
		if set {
			n++
		}
	}
	return n
}

func (b *builder) step(place jsontext.Pointer, e *stepEntry) step {
	var s step
	switch {
	case e.Wait != nil:
		s.wait = *e.Wait
	case e.Progress != nil:
		s.progress = &progress{*e.Progress, e.Total, e.Message}
	case e.Log != nil:
		s.log = &logMessage{orDefault(e.Level, string(mcp.LevelInfo)), e.Logger, e.Log}
	case e.Elicit != nil:
		s.elicit = &form{*e.Elicit, e.Schema}
		if e.Schema == nil {
			s.elicit.schema = json.RawMessage(`{"type":"object","properties":{}}`)
		} else if _, err := mcp.ParseElicitSchema(e.Schema); err != nil {
			b.fail(place+"/schema", err)
		}
	case e.Sample != nil:
		s.sample = *e.Sample
	case e.Roots:
		s.roots = true
	case e.Changed != "":
		s.changed = e.Changed
	case e.Updated != "":
		s.updated = e.Updated
	}
	return s
}

func (b *builder) request(place jsontext.Pointer, e *requestEntry) {
	o, err := e.outcome()
	b.fail(place, err)
	r := &requestRule{method: e.Method, name: e.Name, times: int64(e.Times), latency: e.Latency}
	switch n := o.ends(); {
	case n == 1:
		r.outcome = &o
	case n > 1 || e.Latency == nil:
		b.fail(place, errors.New("the request must have one of result, error, fault and status, or only a latency"))
	}
	b.mock.requests = append(b.mock.requests, r)
}

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
		d.templates.read(result, "resourceTemplates", "uriTemplate",
			func(t *mcp.ResourceTemplate) *json.RawMessage { return &t.Source })
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
