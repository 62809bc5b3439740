package mcp_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestMethodConstantsMatchSchemas(t *testing.T) {
	declared := constantsIn(t, "method.go")
	defined := map[string]bool{ // the skills extension has no schema
		mcp.MethodListSkills: true, mcp.MethodGetSkill: true, mcp.MethodReadDirectory: true,
	}
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		for _, m := range spec.Methods(rev) {
			defined[m.Name] = true
			prefix := "Method"
			if m.Kind == spec.Notification {
				prefix = "Notification"
			}
			if name, ok := declared[m.Name]; !ok || !strings.HasPrefix(name, prefix) {
				t.Errorf("%s defines the %s %q, which has no %s constant", rev, m.Kind, m.Name, prefix)
			}
		}
	}
	for method, name := range declared {
		must.CheckThat(t, defined[method], "%s is %q, which is not in any schema", name, method)
	}
}

func TestMetaConstantsIncludeKeysOfSchemas(t *testing.T) {
	declared := constantsIn(t, "meta.go")
	n := 0
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		for name, raw := range spec.Definitions(rev) {
			if !strings.HasSuffix(name, "MetaObject") {
				continue
			}
			var definition struct {
				Properties map[string]json.RawMessage `json:"properties"`
			}
			must.Do(t, json.Unmarshal(raw, &definition))
			for key := range definition.Properties {
				n++
				must.CheckThat(t, declared[key] != "", "%s of %s has the key %q, which has no constant", name, rev, key)
			}
		}
	}
	must.CheckThat(t, n != 0, "the schemas have no keys")
}

func TestEveryRevisionWithSchemaIsKnown(t *testing.T) {
	revisions := mcp.Revisions()
	must.CheckThat(t, slices.IsSortedFunc(revisions, func(a, b mcp.Revision) int {
		return -strings.Compare(string(a),
			string(b))
	}), "the revisions are not sorted, latest first: %v", revisions)
	must.CheckEqual(t, revisions[0], mcp.Latest)
	for _, rev := range revisions {
		must.CheckThat(t, len(spec.Schema(rev)) != 0 && rev.Known(), "%s.Known() is false", rev)
		must.CheckEqual(t, rev.Modern(), (rev > mcp.LatestLegacy), rev)
	}
	for _, rev := range []mcp.Revision{"", "2025-11-26", "DRAFT-2026-v1"} {
		must.CheckThat(t, !rev.Known(), "Revision(%q).Known() is true", rev)
	}
}

func TestLoggingLevelsMatchSchemas(t *testing.T) {
	for _, rev := range mcp.Revisions() {
		var definition struct {
			Enum []mcp.LoggingLevel `json:"enum"`
		}
		must.Do(t, json.Unmarshal(spec.Definitions(rev)["LoggingLevel"], &definition))
		want := slices.Sorted(slices.Values(definition.Enum))
		got := slices.Sorted(slices.Values(mcp.LoggingLevels()))
		must.CheckThat(t, slices.Equal(got, want), "levels are %v, want %v", got, want)
	}
}

func TestLevelEnablesEqualAndHigherSeverity(t *testing.T) {
	for _, c := range []struct {
		least, message mcp.LoggingLevel
		want           bool
	}{
		{mcp.LevelWarning, mcp.LevelWarning, true},
		{mcp.LevelWarning, mcp.LevelEmergency, true},
		{mcp.LevelWarning, mcp.LevelNotice, false},
		{mcp.LevelDebug, mcp.LevelDebug, true},
		{mcp.LevelEmergency, mcp.LevelAlert, false},
		{"", mcp.LevelEmergency, false},
		{mcp.LevelDebug, "loud", false},
		{"loud", "loud", false},
	} {
		must.CheckEqual(t, c.least.Enables(c.message), c.want, c.least, c.message)
	}
}

// constantsIn returns the string constants of a file, as a map from values to names.
func constantsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
	constants := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		value := must.Get(strconv.Unquote(literal.Value))(t)
		if other := constants[value]; other != "" {
			t.Errorf("%s and %s are both %q", other, spec.Names[0].Name, value)
		}
		constants[value] = spec.Names[0].Name
		return true
	})
	return constants
}

// Rule J11: _meta keys have a grammar.
func TestMetaKeyGrammar(t *testing.T) {
	for key, valid := range map[string]bool{
		"":                                     true, // no prefix and an empty name
		"a":                                    true,
		"7":                                    true,
		"progressToken":                        true,
		"a.b_c-d":                              true,
		"com.example/":                         true, // an empty name
		"com.example/a":                        true,
		"example/a":                            true,
		"c0m.ex--ample2/a..b":                  true,
		"io.modelcontextprotocol/related-task": true,

		"-a":              false,
		"a-":              false,
		".a":              false,
		"_a":              false,
		"a b":             false,
		"ä":               false,
		"a\x00b":          false,
		"/a":              false, // an empty prefix
		"com..example/a":  false,
		".com/a":          false,
		"com./a":          false,
		"1com.example/a":  false,
		"com.2example/a":  false,
		"com.-example/a":  false,
		"com.example-/a":  false,
		"com.exam_ple/a":  false,
		"com.exämple/a":   false,
		"com.example/a/b": false,
		"com.example//":   false,
		"com.example/-":   false,
	} {
		err := mcp.CheckMetaKey(key)
		must.CheckThat(t, !valid || err == nil, "%q: %v", key, err)
		must.CheckThat(t, valid || errors.Is(err, mcp.ErrMetaKey), "%q: got %v, want ErrMetaKey", key, err)
	}
}

// Rule J11: some _meta keys are reserved.
func TestReservedMetaKeys(t *testing.T) {
	for key, reserved := range map[string]bool{
		"io.modelcontextprotocol/":         true,
		"io.modelcontextprotocol/a":        true,
		"dev.mcp/a":                        true,
		"org.modelcontextprotocol.api/a":   true,
		"com.mcp.tools/a":                  true,
		"progressToken":                    true,
		"traceparent":                      true,
		"tracestate":                       true,
		"baggage":                          true,
		"com.example.mcp/a":                false,
		"mcp.dev/a":                        false,
		"mcp/a":                            false,
		"modelcontextprotocol/a":           false,
		"com.mcpx/a":                       false,
		"com.example/progressToken":        false,
		"com.example/modelcontextprotocol": false,
		"mcp":                              false,
		"a":                                false,
	} {
		must.CheckEqual(t, mcp.ReservedMetaKey(key), reserved, key)
	}
}

func TestMetaSetAndGet(t *testing.T) {
	var params mcp.CallToolParams
	must.Do(t, params.Meta.Set(mcp.MetaProgressToken, jsonrpc.IntID(9007199254740993)))
	must.Do(t, params.Meta.Set(mcp.MetaClientCapabilities, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}))
	var token jsonrpc.ID
	if ok, err := params.Meta.Get(mcp.MetaProgressToken, &token); !ok || err != nil ||
		token != jsonrpc.IntID(9007199254740993) {
		t.Errorf("got %v, %t, %v", token, ok, err)
	}
	if ok, err := params.Meta.Get("absent", &token); ok || err != nil {
		t.Errorf("an absent key: %t, %v", ok, err)
	}
	if ok, err := params.Meta.Get(mcp.MetaClientCapabilities, &token); !ok || err == nil {
		t.Errorf("a value of another type: %t, %v", ok, err)
	}
	must.CheckIs(t, params.Meta.Set("not a key", 1), mcp.ErrMetaKey)
	err := params.Meta.Set("key", make(chan int))
	must.CheckThat(t, err != nil, "Set of a value that cannot be encoded returns nil")
	must.CheckEqual(t, len(params.Meta), 2)
}

func TestRequestMetaDecodesProtocolKeys(t *testing.T) {
	const raw = `{
		"progressToken": "p",
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": {},
		"io.modelcontextprotocol/logLevel": "info",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
		"com.example/other": 1
	}`
	for _, codec := range codecs {
		var meta mcp.RequestMeta
		must.Do(t, codec.unmarshal([]byte(raw), &meta), codec.name)
		must.CheckThat(t, meta.ProgressToken == jsonrpc.StringID("p") && meta.ProtocolVersion == mcp.V20260728 &&
			meta.ClientInfo != nil && meta.ClientInfo.Name == "c" && meta.ClientCapabilities != nil &&
			meta.LogLevel == mcp.LevelInfo && meta.TraceParent != "", "%s: got %+v", codec.name, meta)
	}
}

func TestEmptyMetaIsPresentAndNilMetaAbsent(t *testing.T) {
	for _, codec := range codecs {
		for _, c := range []struct {
			meta mcp.Meta
			want string
		}{
			{mcp.Meta{}, `{"_meta":{}}`},
			{nil, `{}`},
		} {
			got := must.Get(codec.marshal(mcp.EmptyResult{ResultBase: mcp.ResultBase{Meta: c.meta}}))(t)
			must.CheckEqual(t, string(got), c.want, codec.name)
			var back mcp.EmptyResult
			must.Do(t, codec.unmarshal(got, &back))
			must.CheckEqual(t, (back.Meta == nil), (c.meta == nil), codec.name, got, back.Meta)
		}
	}
}

func TestEmptyCapabilityIsEncoded(t *testing.T) {
	for _, codec := range codecs {
		client := mcp.ClientCapabilities{
			Experimental: map[string]json.RawMessage{},
			Roots:        &mcp.RootsCapability{},
			Sampling:     &mcp.SamplingCapability{Tools: &mcp.Supported{}},
			Elicitation:  &mcp.ElicitationCapability{},
			Tasks:        &mcp.TasksCapability{Requests: &mcp.TaskRequestsCapability{Elicitation: &mcp.TaskElicitationCapability{Create: &mcp.Supported{}}}},
			Extensions:   map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		}
		const clientWire = `{"experimental":{},"roots":{},"sampling":{"tools":{}},"elicitation":{},` +
			`"tasks":{"requests":{"elicitation":{"create":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		roundTrip(t, codec, client, clientWire)

		server := mcp.ServerCapabilities{
			Logging:     &mcp.Supported{},
			Completions: &mcp.Supported{},
			Prompts:     &mcp.PromptsCapability{},
			Resources:   &mcp.ResourcesCapability{Subscribe: true},
			Tools:       &mcp.ToolsCapability{ListChanged: true},
			Tasks:       &mcp.TasksCapability{List: &mcp.Supported{}},
		}
		const serverWire = `{"logging":{},"completions":{},"prompts":{},"resources":{"subscribe":true},` +
			`"tools":{"listChanged":true},"tasks":{"list":{}}}`
		roundTrip(t, codec, server, serverWire)

		roundTrip(t, codec, mcp.ClientCapabilities{}, `{}`)
		roundTrip(t, codec, mcp.ServerCapabilities{}, `{}`)
	}
}

func roundTrip[T any](t *testing.T, codec codec, v T, wire string) {
	t.Helper()
	raw := must.Get(codec.marshal(v))(t)
	must.CheckEqual(t, string(raw), wire, codec.name)
	var back T
	must.Do(t, codec.unmarshal(raw, &back))
	must.CheckEqual(t, cmp.Diff(v, back), "", codec.name)
}

func TestCapabilityMustBeObject(t *testing.T) {
	for _, codec := range codecs {
		for _, raw := range []string{`{"roots":true}`, `{"sampling":[]}`, `{"elicitation":"form"}`} {
			err := codec.unmarshal([]byte(raw), new(mcp.ClientCapabilities))
			must.CheckThat(t, err != nil, "%s: accepted %s", codec.name, raw)
		}
	}
}

func TestElicitationCapabilityWithoutModesSupportsForms(t *testing.T) {
	for _, c := range []struct {
		capability *mcp.ElicitationCapability
		form, url  bool
	}{
		{nil, false, false},
		{&mcp.ElicitationCapability{}, true, false},
		{&mcp.ElicitationCapability{Form: &mcp.Supported{}}, true, false},
		{&mcp.ElicitationCapability{URL: &mcp.Supported{}}, false, true},
		{&mcp.ElicitationCapability{Form: &mcp.Supported{}, URL: &mcp.Supported{}}, true, true},
	} {
		if c.capability.SupportsForm() != c.form || c.capability.SupportsURL() != c.url {
			t.Errorf("%+v: form %t, URL %t", c.capability, c.capability.SupportsForm(), c.capability.SupportsURL())
		}
	}
}

func TestExtensionIDMustHavePrefix(t *testing.T) {
	for id, valid := range map[string]bool{
		mcp.ExtensionTasks: true,
		"com.example/a":    true,
		"tasks":            false,
		"com.example":      false,
		"com.example/a b":  false,
		"/a":               false,
		"":                 false,
	} {
		err := mcp.CheckExtensionID(id)
		must.CheckThat(t, (err == nil) == valid, "%q: %v", id, err)
	}
	must.CheckIs(t, mcp.CheckExtensionID("com.example/a b"), mcp.ErrMetaKey)
}

// For everything that the program has not changed, an encoding contains the bytes of the
// source.
func TestEncodingKeepsWhatTheProgramDoesNotChange(t *testing.T) {
	const tool = `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},` +
		`"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a",` +
		`"z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`
	for name, test := range map[string]struct {
		change func(*mcp.Tool)
		want   string
	}{
		"nothing": {func(*mcp.Tool) {}, tool},
		"a member": {func(t *mcp.Tool) {
			t.Name = "b"
		}, `{"x":1.50,"name":"b","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],` +
			`"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a zero member": {func(t *mcp.Tool) {
			t.Title = "t"
		}, `{"x":1.50,"name":"a","title":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],` +
			`"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a member inside": {func(t *mcp.Tool) {
			t.Annotations.ReadOnlyHint = true
		}, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],` +
			`"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"an element": {func(t *mcp.Tool) {
			t.Icons[1].Src = "https://e/c"
		}, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/c"}],` +
			`"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a removed element": {func(t *mcp.Tool) {
			t.Icons = t.Icons[1:]
		}, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"removed members": {func(t *mcp.Tool) {
			t.Annotations = nil
			delete(t.Meta, "c/d")
		}, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"icons":[{"src":"https://e/a","z":false},` +
			`{"src":"https://e/b"}],"_meta":{"a/b":1e2}}`},
		"an added member": {func(t *mcp.Tool) {
			t.Description = "d"
		}, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,` +
			`"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],` +
			`"_meta":{"a/b": 1e2,"c/d":{}},"description":"d"}`},
		"an invalid source": {func(t *mcp.Tool) {
			t.Source = json.RawMessage("{")
			t.Annotations, t.Icons, t.Meta = nil, nil, nil
		}, `{"name":"a","inputSchema":{"type":"object"}}`},
		"a source of others": {func(t *mcp.Tool) {
			t.Source = json.RawMessage(`[]`)
			t.Annotations, t.Icons, t.Meta = nil, nil, nil
		}, `{"name":"a","inputSchema":{"type":"object"}}`},
	} {
		var got mcp.Tool
		must.Do(t, json.Unmarshal([]byte(tool), &got))
		must.CheckThat(t, got.Source == nil, "decoding sets Source")
		got.Source = json.RawMessage(tool)
		test.change(&got)
		must.CheckEqual(t, string(must.Get(got.MarshalJSON())(t)), test.want, name)
	}
}

func TestEncodingOfASourceHasOneLine(t *testing.T) {
	result := mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a\nb")}}
	result.Source = json.RawMessage("{\"content\": [\n{\"type\":\"text\",\r\n\"text\":\"a\\nb\"}], \"x\":\n1}")
	want := `{"content": [ {"type":"text",  "text":"a\nb"}], "x": 1}`
	must.CheckEqual(t, string(must.Get(result.MarshalJSON())(t)), want)
	result.IsError = true
	want = `{"content":[ {"type":"text",  "text":"a\nb"}],"x":1,"isError":true}`
	must.CheckEqual(t, string(must.Get(result.MarshalJSON())(t)), want)
}
