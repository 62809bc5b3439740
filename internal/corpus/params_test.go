package corpus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// goodParams are valid params for each message of a client, but for the metadata of 2026-07-28.
var goodParams = map[string]string{
	mcp.MethodPing:                   `{}`,
	mcp.MethodDiscover:               `{}`,
	mcp.MethodListTools:              `{}`,
	mcp.MethodListPrompts:            `{}`,
	mcp.MethodListResources:          `{}`,
	mcp.MethodListResourceTemplates:  `{}`,
	mcp.MethodCallTool:               `{"name":"<<echo>>","arguments":{"text":"a"}}`,
	mcp.MethodGetPrompt:              `{"name":"<<greet>>","arguments":{"name":"Ada"}}`,
	mcp.MethodReadResource:           `{"uri":"note://a"}`,
	mcp.MethodSubscribe:              `{"uri":"note://a"}`,
	mcp.MethodUnsubscribe:            `{"uri":"note://a"}`,
	mcp.MethodSetLevel:               `{"level":"error"}`,
	mcp.MethodComplete:               `{"ref":{"type":"ref/prompt","name":"<<greet>>"},"argument":{"name":"name","value":"A"},"context":{"arguments":{"a":"b"}}}`,
	mcp.NotificationInitialized:      `{}`,
	mcp.NotificationCancelled:        `{"requestId":"none","reason":"r"}`,
	mcp.NotificationProgress:         `{"progressToken":"none","progress":1,"total":2,"message":"m"}`,
	mcp.NotificationRootsListChanged: `{}`,
}

// wrongValues are one value of each JSON type.
var wrongValues = []string{`null`, `true`, `7`, `1.5`, `"x:y"`, `[]`, `{"a":1}`}

// A value that the schema does not allow is an invalid param. The cases are generated: each member of the params of each
// message that a client sends, at two levels, missing and with a value of each type.
func TestServersRejectParamsThatTheSchemaDoesNotAllow(t *testing.T) {
	total := 0
	for _, r := range mcp.Revisions() {
		total += len(generated(r))
	}
	if total < 450 {
		t.Fatalf("%d cases, want at least 450", total)
	}
	onEveryPlace(t, func(t *testing.T, pl place, connect func() *peer) {
		p, failures := connect(), 0
		for _, c := range generated(pl.revision) {
			if err := p.try(t, c); err != nil {
				t.Errorf("%s: %s: %v", c.Name, c.Input, err)
				p = reconnect(t, &failures, connect)
			}
		}
	})
}

var (
	generatedOnce  sync.Mutex
	generatedCases = make(map[mcp.Revision][]corpus.Case)
)

func generated(r mcp.Revision) []corpus.Case {
	generatedOnce.Lock()
	defer generatedOnce.Unlock()
	if generatedCases[r] == nil {
		generatedCases[r] = generate(r)
	}
	return generatedCases[r]
}

func generate(r mcp.Revision) []corpus.Case {
	var cases []corpus.Case
	for _, m := range spec.Methods(r) {
		good, ok := goodParams[m.Name]
		if !ok || !m.FromClient {
			continue
		}
		g := generator{revision: r, method: m}
		params := object(good)
		if r.Modern() {
			params["_meta"] = object(`{` + wiretest.Meta + `}`)["_meta"]
		}
		cases = append(cases, g.mutations(params, g.schema("params"), nil)...)
	}
	return cases
}

type generator struct {
	revision mcp.Revision
	method   spec.Method
}

// mutations returns the cases in which one member of an object in params is missing or has another type. Set puts the
// changed object in its place; nil means that the object is params.
func (g generator) mutations(in map[string]any, schema map[string]any, where []string) []corpus.Case {
	var cases []corpus.Case
	names := make(map[string]bool)
	for name := range in {
		names[name] = true
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name := range properties {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := append(slices.Clone(where), name)
		if _, present := in[name]; present {
			cases = g.add(cases, at, "")
		}
		for _, value := range wrongValues {
			cases = g.add(cases, at, value)
		}
		if inner, ok := in[name].(map[string]any); ok && len(where) == 0 {
			cases = append(cases, g.mutations(inner, resolve(g.revision, schema, "properties", name), at)...)
		}
	}
	return cases
}

// add appends the case in which the member of params has a value, or is missing if value is empty. It appends nothing if
// the schema allows that.
func (g generator) add(cases []corpus.Case, at []string, value string) []corpus.Case {
	params := object(goodParams[g.method.Name])
	if g.revision.Modern() {
		params["_meta"] = object(`{` + wiretest.Meta + `}`)["_meta"]
	}
	in := params
	for _, name := range at[:len(at)-1] {
		inner, ok := in[name].(map[string]any)
		if !ok {
			return cases
		}
		in = inner
	}
	last, what := at[len(at)-1], value
	if value == "" {
		delete(in, last)
		what = "missing"
	} else {
		in[last] = json.RawMessage(value)
	}
	message := map[string]any{"jsonrpc": "2.0", "method": g.method.Name, "params": params}
	outcomes := []string{"none"}
	if g.method.Kind == spec.Request {
		message["id"] = "c"
		outcomes = []string{`-32602 "c"`}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // << and >>
	if err := encoder.Encode(message); err != nil {
		panic(err)
	}
	input := strings.TrimSpace(text.String())
	if spec.ValidateMessage(g.revision, []byte(input), "") == nil {
		return cases
	}
	if g.method.Kind == spec.Request {
		outcomes = append(outcomes, g.exceptions(at, value)...)
	}
	name := fmt.Sprintf("%s: params.%s is %s", g.method.Name, strings.Join(at, "."), what)
	return append(cases, corpus.Generated(name, input, outcomes...))
}

// exceptions returns the outcomes that are not those of an invalid param, and why.
func (g generator) exceptions(at []string, value string) []string {
	modern, last := g.revision.Modern(), at[len(at)-1]
	switch {
	case modern && (len(at) == 1 && last == "_meta" || last == mcp.MetaProtocolVersion && value == "") && g.method.Name != mcp.MethodDiscover:
		// Without the revision, only the header says that the request is one of 2026-07-28.
		return []string{`-32600 "c"`, `http: -32602 "c"`}
	case modern && value == `{"a":1}` && (last == mcp.MetaClientInfo || last == "inputResponses"):
		// A description of the client without a name is for display only, and a response to no input request has no reader.
		return []string{`result "c"`}
	case slices.Contains(at, "arguments") && value == "null":
		return []string{`result "c"`} // published clients send it for no arguments, or for an optional one
	case !modern && at[0] == "_meta" || last == "task":
		// Metadata and a request for a task are optional. A server without tasks ignores the latter (2025-11-25,
		// basic/utilities/tasks, Capability Negotiation).
		return []string{`result "c"`}
	case len(at) == 1 && (last == "name" || last == "uri") && value == "":
		return []string{`modern http: -32020 "c"`} // a header repeats the member
	}
	return nil
}

// schema returns the schema of a member of the message.
func (g generator) schema(member string) map[string]any {
	return resolve(g.revision, definition(g.revision, g.method.Definition), "properties", member)
}

func definition(r mcp.Revision, name string) map[string]any {
	return object(string(spec.Definitions(r)[name]))
}

// resolve returns the part of a schema at a path, and follows references.
func resolve(r mcp.Revision, schema map[string]any, steps ...string) map[string]any {
	for _, step := range steps {
		next, ok := schema[step].(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := next["$ref"].(string); ok {
			next = definition(r, path.Base(ref))
		}
		schema = next
	}
	return schema
}

func object(text string) map[string]any {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}
