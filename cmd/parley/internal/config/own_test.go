package config

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/schema"
)

// schemaTree returns the schema as a tree.
func schemaTree(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(Schema, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// The schema describes the members that are read, and no others.
func TestSchemaHasTheMembersThatAreRead(t *testing.T) {
	tree := schemaTree(t)
	definition := func(name string) map[string]any { return tree["$defs"].(map[string]any)[name].(map[string]any) }
	root := maps.Clone(rootMembers)
	for _, other := range []string{"servers", "context_servers", "mcp", "projects"} { // files of other programs
		delete(root, other)
	}
	for name, c := range map[string]struct {
		object map[string]any
		read   []string
	}{
		"file":        {tree, slices.Sorted(maps.Keys(root))},
		"server":      {definition("server"), slices.Sorted(slices.Values(serverFields.names()))},
		"command":     {definition("command"), slices.Sorted(slices.Values(commandFields.names()))},
		"tools":       {definition("tools"), slices.Sorted(slices.Values(toolFields.names()))},
		"prompts":     {definition("prompts"), slices.Sorted(slices.Values(promptFields.names()))},
		"toolset":     {definition("toolset"), slices.Sorted(slices.Values(toolsetFields.names()))},
		"policy":      {definition("policy"), slices.Sorted(slices.Values(policyFields.names()))},
		"rule":        {definition("rule"), slices.Sorted(slices.Values(ruleFields.names()))},
		"hook":        {definition("hook"), slices.Sorted(slices.Values(hookFields.names()))},
		"principal":   {definition("principal"), slices.Sorted(slices.Values(principalFields.names()))},
		"credentials": {definition("credentials"), slices.Sorted(slices.Values(credentialFields.names()))},
		"input":       {definition("input"), slices.Sorted(slices.Values(inputFields.names()))},
	} {
		described := slices.Sorted(maps.Keys(c.object["properties"].(map[string]any)))
		if diff := cmp.Diff(c.read, described); diff != "" {
			t.Errorf("%s: read (-), described (+):\n%s", name, diff)
		}
		if c.object["additionalProperties"] != false {
			t.Errorf("%s: additionalProperties is %v", name, c.object["additionalProperties"])
		}
	}
	if tree["$id"] != SchemaURI {
		t.Errorf("$id is %v, want %s", tree["$id"], SchemaURI)
	}
}

// The reader ignores case, hyphens and underscores. The schema has every spelling that programs use.
func TestSchemaHasEverySpellingOfAType(t *testing.T) {
	words := map[string][]string{"streamablehttp": {"streamable", "HTTP"}, "httpstream": {"HTTP", "stream"}}
	title := func(word string) string { return strings.ToUpper(word[:1]) + strings.ToLower(word[1:]) }
	var want []string
	for kind := range kinds {
		want = append(want, kind)
		if w := words[kind]; w == nil {
			want = append(want, strings.ToUpper(kind))
		} else {
			lower := strings.ToLower(w[0])
			want = append(want, lower+"-"+strings.ToLower(w[1]), lower+"_"+strings.ToLower(w[1]), lower+title(w[1]),
				w[0]+strings.ToUpper(w[1][:1])+w[1][1:])
		}
	}
	var got []string
	for _, c := range schemaTree(t)["$defs"].(map[string]any)["server"].(map[string]any)["properties"].(map[string]any)["type"].(map[string]any)["anyOf"].([]any) {
		for _, spelling := range c.(map[string]any)["enum"].([]any) {
			got = append(got, spelling.(string))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-), described (+):\n%s", diff)
	}
}

// validate returns the error of the schema for a file.
func validate(t *testing.T, data []byte) error {
	t.Helper()
	compiled, err := schema.Compile(Schema)
	if err != nil {
		t.Fatal(err)
	}
	standard, err := hujson.Standardize(slices.Clone(data))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(standard)
}

func TestFilesOfTheOwnFormMatchTheSchema(t *testing.T) {
	for _, name := range []string{"parley.json", "claude-code-project.json", "cursor.json", "windsurf.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c, err := Parse("/srv/project", name, data); err != nil || len(c.Warnings)+len(c.Problems) > 0 {
			t.Errorf("%s: %v, warnings %q, problems %v", name, err, c.Warnings, c.Problems)
		}
	}
}

// The schema rejects what is reported as an error. An unknown member is one: it may be a misspelt limit.
func TestSchemaRejectsWhatIsReported(t *testing.T) {
	const server, toolset = `{"$schema": "` + SchemaURI + `", "mcpServers": {"a": {"command": "a", MEMBER}}}`,
		`{"$schema": "` + SchemaURI + `", "mcpServers": {}, "toolsets": {"a": {MEMBER}}}`
	for _, c := range []struct{ form, member, want string }{
		{server, `"tool": []`, `server "a": tool is unknown; did you mean "tools"?`},
		{server, `"tools": "read"`, `tools must be an object`},
		{server, `"tools": {"only": "read"}`, `tools.only must be an array of strings`},
		{server, `"tools": {"readonly": true}`, `tools.readonly is unknown; did you mean "readOnly"?`},
		{server, `"tools": {"readOnly": "yes"}`, `tools.readOnly must be true or false`},
		{server, `"prompts": {"readOnly": true}`, `prompts.readOnly is unknown; remove it`},
		{server, `"tools": {"rename": {"a": "b c"}}`, `new name "b c" of "a" must have`},
		{server, `"tools": {"rename": {"a": 1}}`, `tools.rename a must be a string`},
		{server, `"idle": "10"`, `idle must be a positive duration`},
		{server, `"prefix": 1`, `prefix must be a string`},
		{toolset, `"hide": []`, `toolset "a": must have servers, tools or prompts`},
		{`{MEMBER}`, `"policy": {"rules": []}`, `"default" is missing`},
		{`{MEMBER}`, `"policy": {"default": "maybe"}`, `policy.default must be "allow", "ask" or "deny"`},
		{`{MEMBER}`, `"policy": {"default": "deny", "rules": [{"tools": "a", "action": "allow"}]}`,
			`policy.rules[0].tools is unknown; did you mean "tool"?`},
		{`{MEMBER}`, `"policy": {"default": "deny", "approvalTimeout": "5"}`,
			`approvalTimeout must be a positive duration`},
		{`{MEMBER}`, `"hooks": [{"server": "a"}]`, `"url" is missing`},
		{`{MEMBER}`, `"hooks": [{"url": "a", "on": []}]`, `hooks[0].on must have`},
		{server, `"maxResult": 0`, "maxResult must be"},
		{server, `"sharing": "never"`, `sharing must be "automatic", "shared" or "perCaller"`},
		{server, `"inputLimits": {"perCall": 0}`,
			`inputLimits.perCall must be a whole number from 1 to 2147483647, or -1 for no limit`},
		{server, `"inputLimits": {"maxTokens": 1.5}`, `inputLimits.maxTokens must be a whole number`},
		{server, `"extensions": {"com.example/a": {"methods": []}}`,
			`extensions["com.example/a"].methods is unknown; remove it`},
		{server, `"extensions": {"com.example/a": {"settings": 1}}`,
			`extensions["com.example/a"].settings must be an object`},
		{server, `"inputLimits": {"perminute": 1}`, `inputLimits.perminute is unknown; did you mean "perMinute"?`},
		{server, `"revision": "2025-06-17"`, `revision must be one of ["2026-07-28" `},
		{server, `"trusted": 1`, `trusted must be true or false`},
		{toolset, `"servers": "a"`, `servers must be an array of strings`},
		{toolset, `"tool": [], "tools": ["a"]`, `toolset "a": tool is unknown; did you mean "tools"?`},
		{toolset, `"tools": ["a"], "principals": [{"issuer": "https://a"}]`,
			`toolset "a": principals[0]: subject is missing`},
		{toolset, `"tools": ["a"], "principals": {}`, `toolset "a": principals must be an array`},
		{`{"$schema": "` + SchemaURI + `", "mcpServers": {}, "toolsets": {"a/b": {MEMBER}}}`, `"tools": ["a"]`,
			`toolset "a/b": the name must have 1 to 64 letters`},
		{`{MEMBER, "mcpServers": {}}`, `"polcy": {"default": "deny"}`, `polcy is unknown; did you mean "policy"?`},
		{`{MEMBER, "mcpServers": {}}`, `"Policy": {"default": "deny"}`, `Policy is unknown; did you mean "policy"?`},
		{`{"mcpServers": {}, "inputs": [{MEMBER}]}`, `"id": "a", "pasword": true`,
			`inputs[0]: pasword is unknown; did you mean "password"?`},
		{server, `"inputLimit": {}`, `server "a": inputLimit is unknown; did you mean "inputLimits"?`},
		{server, `"disable": true`, `server "a": disable is unknown; did you mean "disabled"?`},
		{server, `"credentials": {"type": "callerLogin", "client": "a"}`, `credentials.client is unknown; `},
		{`{"$schema": "` + SchemaURI + `", "mcpServers": {}, MEMBER}`, `"toolset": {}`,
			`toolset is unknown; did you mean "toolsets"?`},
	} {
		data := []byte(strings.Replace(c.form, "MEMBER", c.member, 1))
		if validate(t, data) == nil {
			t.Errorf("the schema permits %s", data)
		}
		var reported []string
		config, err := Parse("/", "f", data)
		if err != nil {
			reported = append(reported, err.Error())
		} else {
			reported = append(reported, config.Warnings...)
			for _, p := range config.Problems {
				reported = append(reported, p.Err.Error())
			}
		}
		if len(reported) != 1 || !strings.HasPrefix(reported[0], "f:1: ") || !strings.Contains(reported[0], c.want) {
			t.Errorf("%s: %q, want %s", data, reported, c.want)
		}
	}
}

func TestOwnFormIsRead(t *testing.T) {
	c, err := Load("/srv/project", "testdata/parley.json")
	if err != nil {
		t.Fatal(err)
	}
	files, search := c.Servers[0], c.Servers[1]
	if diff := cmp.Diff(&host.ServerConfig{
		Name: "files", Trusted: true, Prefix: new("fs"),
		Tools: host.Selection{
			Only: []string{"read_*", "write_*"}, Hide: []string{"*_all"},
			Rename:   map[string]string{"read_text_file": "read"},
			ReadOnly: true, NonDestructive: true, Idempotent: true, ClosedWorld: true,
		},
		Prompts: host.Selection{Only: []string{"a*"}, Hide: []string{"b*"}, Rename: map[string]string{"a1": "a"}},
	}, files.Settings()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&host.ServerConfig{
		Name: "search", Revision: "2025-06-18", Lazy: true, Idle: 10 * time.Minute, Sharing: host.PerCaller,
		InputLimits: host.InputLimits{PerCall: 8, PerMinute: -1, MaxTokens: 4096}, MaxResult: 100_000,
		Extensions: []host.Extension{{ID: "com.example/jobs", Settings: json.RawMessage(`{"priority":7}`),
			Requests: []string{"jobs/run"}, Notifications: []string{"notifications/jobs/running"}}},
		Prefix: new(""), Tools: host.Selection{Only: []string{"find"}}, Prompts: host.Selection{Only: []string{}},
	}, search.Settings()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Toolset{{
		Name: "reading", Source: "testdata/parley.json:49", Servers: []string{"search"}, Tools: []string{"fs__read*"},
		Prompts: []string{"fs__*"},
		Hide:    []string{"*__delete*"}, Scopes: []string{"docs:read"},
		Principals: []Principal{{"https://login.example.com", "ada"}, {"", "grace"}},
	}}, c.Toolsets, cmpopts.IgnoreUnexported(Toolset{})); diff != "" || c.DefaultToolset != "reading" {
		t.Error(diff, c.DefaultToolset)
	}
}

func TestSelectionsOfOtherProgramsAreRead(t *testing.T) {
	c, err := Parse("/", "f",
		[]byte(`{"mcpServers": {"a": {"command": "a", "includeTools": ["x", "y"], "excludeTools": ["y"], `+
			`"disabledTools": ["z"]}, "b": {"command": "b", "tools": ["*"]}}}`))
	if err != nil || len(c.Warnings)+len(c.Problems) > 0 {
		t.Fatal(err, c.Warnings, c.Problems)
	}
	want := []host.Selection{{Only: []string{"x", "y"}, Hide: []string{"y", "z"}}, {Only: []string{"*"}}}
	if diff := cmp.Diff(want, []host.Selection{c.Servers[0].Tools, c.Servers[1].Tools}); diff != "" {
		t.Error(diff)
	}
}
