package config

import (
	"encoding/json"
	"fmt"
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

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// schemaTree returns the schema as a tree.
func schemaTree(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	must.Do(t, json.Unmarshal(Schema, &tree))
	return tree
}

// The schema describes the members that are read, and no others.
func TestSchemaHasTheMembersThatAreRead(t *testing.T) {
	tree := schemaTree(t)
	definition := func(name string) map[string]any { return tree["$defs"].(map[string]any)[name].(map[string]any) }
	root := maps.Clone(rootMembers)
	for _, other := range []string{"servers", "context_servers", "mcp_servers", "mcp",
		"projects"} { // files of other programs
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
		"confine":     {definition("confine"), slices.Sorted(slices.Values(confineFields.names()))},
		"input":       {definition("input"), slices.Sorted(slices.Values(inputFields.names()))},
	} {
		described := slices.Sorted(maps.Keys(c.object["properties"].(map[string]any)))
		must.CheckEqual(t, cmp.Diff(c.read, described), "", name, "read (-), described (+")
		must.CheckThat(t, c.object["additionalProperties"] == false,
			"%s: additionalProperties is %v", name, c.object["additionalProperties"])
	}
	must.CheckThat(t, tree["$id"] == SchemaURI, "$id is %v, want %s", tree["$id"], SchemaURI)
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
	must.CheckEqual(t, cmp.Diff(want, got), "", "read (-), described (+")
}

// validate returns the error of the schema for a file.
func validate(t *testing.T, data []byte) error {
	t.Helper()
	compiled := must.Get(schema.Compile(Schema))(t)
	standard := must.Get(hujson.Standardize(slices.Clone(data)))(t)
	return compiled.Validate(standard)
}

func TestFilesOfTheOwnFormMatchTheSchema(t *testing.T) {
	for _, name := range []string{"parley.json", "claude-code-project.json", "cursor.json", "windsurf.json"} {
		data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
		must.Check(t, validate(t, data), name)
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
		{server, `"startTimeout": 20`, `startTimeout must be a string`},
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
		{server, `"sharing": "never"`, `sharing must be "automatic", "everyone", "user" or "session"`},
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
		{server, `"confine": {"reads": []}`, `confine.reads is unknown; did you mean "read"?`},
		{server, `"confine": {"read": "~"}`, `confine.read must be an array of strings`},
		{server, `"confine": {"network": "no"}`, `confine.network must be true or false`},
		{server, `"confine": {"memory": "2GB"}`, `confine.memory must be a size such as 512MiB or 2GiB, not "2GB"`},
		{server, `"confine": {"processes": 0}`, `confine.processes must be a whole number`},
		{server, `"confine": true`, `confine must be an object`},
		{server, `"credentials": {"type": "callerLogin", "client": "a"}`, `credentials.client is unknown; `},
		{`{"$schema": "` + SchemaURI + `", "mcpServers": {}, MEMBER}`, `"toolset": {}`,
			`toolset is unknown; did you mean "toolsets"?`},
	} {
		data := []byte(strings.Replace(c.form, "MEMBER", c.member, 1))
		must.CheckThat(t, validate(t, data) != nil, "the schema permits %s", data)
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
		must.CheckThat(t, len(reported) == 1 && strings.HasPrefix(reported[0], "f:1: ") &&
			strings.Contains(reported[0], c.want), "%s: %q, want %s", data, reported, c.want)
	}
}

func TestOwnFormIsRead(t *testing.T) {
	c := must.Get(Load("/srv/project", "testdata/parley.json"))(t)
	files, search := c.Servers[0], c.Servers[1]
	must.CheckEqual(t, cmp.Diff(&host.ServerConfig{
		Name: "files", Trusted: true, Prefix: "fs",
		Tools: host.Selection{
			Only: []string{"read_*", "write_*"}, Hide: []string{"*_all"},
			Rename: map[string]string{"read_text_file": "read"},
			Annotations: mcp.ToolAnnotations{
				ReadOnlyHint: true, DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(false),
			},
		},
		Prompts: host.Selection{Only: []string{"a*"}, Hide: []string{"b*"}, Rename: map[string]string{"a1": "a"}},
	}, files.Settings(), cmp.AllowUnexported(host.ServerConfig{})), "")
	must.CheckEqual(t, cmp.Diff(&confine.Rules{Read: []string{"~/notes", "docs"}, Write: []string{"${userHome}/out"},
		Network: true, Memory: "2GiB", Processes: 64, Files: 256, BestEffort: true}, files.Confine), "")
	want := &host.ServerConfig{
		Name: "search", Revision: "2025-06-18", Lazy: true, Idle: 10 * time.Minute, StartTimeout: 2 * time.Minute,
		Sharing: host.SharingSession, MaxResult: 100_000,
		NoPrefix: true, Tools: host.Selection{Only: []string{"find"}}, Prompts: host.Selection{Only: []string{}},
		InputLimits: host.InputLimits{PerCall: 8, PerMinute: -1, MaxTokens: 4096},
		Extensions: []host.Extension{{ID: "com.example/jobs", Settings: json.RawMessage(`{"priority":7}`),
			Requests: []string{"jobs/run"}, Notifications: []string{"notifications/jobs/running"}}},
	}
	must.CheckEqual(t, cmp.Diff(want, search.Settings(), cmp.AllowUnexported(host.ServerConfig{})), "")
	if diff := cmp.Diff([]Toolset{{
		Name: "reading", Source: "testdata/parley.json:50", Servers: []string{"search"}, Tools: []string{"fs__read*"},
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
	must.That(t, err == nil && len(c.Warnings)+len(c.Problems) == 0, "%v %v %v", err, c.Warnings, c.Problems)
	want := []host.Selection{{Only: []string{"x", "y"}, Hide: []string{"y", "z"}}, {Only: []string{"*"}}}
	must.CheckEqual(t, cmp.Diff(want, []host.Selection{c.Servers[0].Tools, c.Servers[1].Tools}), "")
}

// Each program has its own unit for the limit of a start. A limit for requests does not limit the start.
func TestLimitOfAStartIsReadInTheUnitOfItsProgram(t *testing.T) {
	for _, c := range []struct {
		file, text, warning string
		want                time.Duration
	}{
		{"config.toml", "[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_sec = 20", "", 20 * time.Second},
		{"config.toml", "[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_sec = 1.5", "", 1500 * time.Millisecond},
		{"config.toml", "[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_ms = 20_000", "", 20 * time.Second},
		{"config.toml", "[mcp_servers.a]\ncommand = \"a\"\ntool_timeout_sec = 20",
			`config.toml:3: server "a": tool_timeout_sec has no effect` + requestTimeoutHint, 0},
		{"opencode.json", `{"mcp": {"a": {"type": "local", "command": ["a"], "timeout": 20000}}}`, "", 20 * time.Second},
		{"mcp.json", `{"mcpServers": {"a": {"command": "a", "timeout": 20}}}`,
			`mcp.json:1: server "a": timeout has no effect` + requestTimeoutHint, 0},
		{"mcp.json", `{"mcpServers": {"a": {"command": "a", "startTimeout": "20s"}}}`, "", 20 * time.Second},
	} {
		read, err := Parse("/", c.file, []byte(c.text))
		must.That(t, err == nil && len(read.Problems) == 0 && len(read.Servers) == 1, "%v %v %v", c.text, err, read)
		if got := read.Servers[0].Settings().StartTimeout; got != c.want || strings.Join(read.Warnings, "\n") != c.warning {
			t.Errorf("%s: %v, warnings %q", c.text, got, read.Warnings)
		}
	}
	for _, value := range []string{"0", "-1", `"20s"`, "true", "1e300"} {
		read, err := Parse("/", "config.toml", []byte("[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_sec = "+value))
		must.CheckThat(t, err == nil && (len(read.Problems) == 1 || read.Servers[0].StartTimeout == 20*time.Second),
			"%s: %+v, %v", value, read, err)
	}
}

// line describes a server in one line.
func line(s *Server) string {
	words := []string{s.Name}
	if s.Name != s.Original {
		words = append(words, "("+s.Original+")")
	}
	if s.Disabled {
		words = append(words, "disabled")
	}
	words = append(words, s.URL, s.Command)
	words = append(words, s.Args...)
	for _, p := range append(s.Headers, s.Env...) {
		words = append(words, p.Name+"="+p.Value)
	}
	words = append(words, s.EnvFile, s.Dir)
	if s.Tools.Only != nil || s.Tools.Hide != nil {
		words = append(words, fmt.Sprintf("only %q hide %q", s.Tools.Only, s.Tools.Hide))
	}
	var given []string
	for _, w := range words {
		if w != "" {
			given = append(given, w)
		}
	}
	return strings.Join(given, " ")
}

// Every file is as the program whose name it has writes it.
func TestFilesOfOtherProgramsLoad(t *testing.T) {
	for name, want := range map[string][]string{
		"claude-desktop.json": {
			"filesystem npx -y @modelcontextprotocol/server-filesystem /srv/documents",
			"Brave-Search (Brave Search) docker run -i --rm -e BRAVE_API_KEY mcp/brave-search BRAVE_API_KEY=key",
		},
		"claude-code-project.json": {
			"api ${API_BASE:-https://api.example.com}/mcp Authorization=Bearer ${API_KEY}",
			"events https://events.example.com/sse",
			"database /opt/tools/database --dsn ${DSN}",
		},
		"claude-code-user.json": {
			"notes work-notes",
			"search https://search.example.com/mcp",
			"build https://build.example.com/mcp",
		},
		"cursor.json": {
			"python python ${workspaceFolder}/server.py API_KEY=${env:API_KEY} HOME_DIR=${userHome} " +
				"${workspaceFolder}/.env",
			"remote-docs (remote.docs) https://docs.example.com/mcp X-Key=${env:API_KEY}",
		},
		"vscode-mcp.json": {
			"github https://api.example.com/mcp/ Authorization=Bearer ${input:token}",
			"playwright npx -y @microsoft/mcp-server-playwright REGION=${input:region} PORT=8080 HEADLESS=true " +
				"${workspaceFolder}/.env",
			`warning: vscode-mcp.json:15: server "playwright": dev has no effect`,
		},
		"vscode-settings.json": {"files files ${input:path}"},
		"zed-settings.json": {
			"local some-command one two",
			"older older-command three A=1",
			"remote https://remote.example.com/mcp Authorization=Bearer ${TOKEN}",
			"off disabled off",
			`problem: mcp-server-postgres: zed-settings.json:20: server "mcp-server-postgres": belongs to an ` +
				`extension of the editor, so parley cannot start it`,
			`warning: zed-settings.json:13: server "older": settings has no effect`,
			`warning: zed-settings.json:20: server "mcp-server-postgres": settings has no effect`,
		},
		"gemini-settings.json": {
			"github https://api.example.com/mcp/ Authorization=Bearer ${TOKEN}",
			`python python -m server ./server only ["one"] hide []`,
			`warning: gemini-settings.json:8: server "github": timeout has no effect` + requestTimeoutHint,
			`warning: gemini-settings.json:14: server "python": timeout has no effect` + requestTimeoutHint,
			`warning: gemini-settings.json:15: server "python": trust has no effect`,
		},
		"windsurf.json": {
			`remote https://remote.example.com/mcp API_KEY=Bearer ${env:TOKEN} only [] hide ["drop"]`,
			"keyed disabled npx -y keyed KEY=${file:key.txt}",
		},
	} {
		c, err := (&Files{Workspace: "/home/user/work/code", Paths: []string{filepath.Join("testdata", name)},
			Foreign: true}).Load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for i := range c.Servers {
			got = append(got, line(&c.Servers[i]))
		}
		for _, p := range c.Problems {
			got = append(got, "problem: "+p.Name+": "+strings.TrimPrefix(p.Err.Error(), "testdata/"))
		}
		for _, w := range c.Warnings {
			got = append(got, "warning: "+strings.TrimPrefix(w, "testdata/"))
		}
		must.CheckEqual(t, cmp.Diff(want, got), "", name, "- want, +")
	}
}

func TestServersOfAnotherProjectAreNotRead(t *testing.T) {
	for workspace, want := range map[string]string{
		"/home/user/other":  "notes user-notes, search https://search.example.com/mcp, other other",
		"/home/user/worker": "notes home-notes, search https://search.example.com/mcp",
		"/srv":              "notes user-notes, search https://search.example.com/mcp",
	} {
		c, err := (&Files{Workspace: workspace, Paths: []string{"testdata/claude-code-user.json"},
			Foreign: true}).Load()
		must.Do(t, err)
		var got []string
		for i := range c.Servers {
			got = append(got, line(&c.Servers[i]))
		}
		must.CheckEqual(t, strings.Join(got, ", "), want, workspace, got)
	}
}

func TestNamesBecomeNamesOfServers(t *testing.T) {
	long := strings.Repeat("long", 20)
	for original, want := range map[string]string{
		"plain-name_1":          "plain-name_1",
		"Brave Search":          "Brave-Search",
		"@scope/package":        "scope-package",
		"a__b_":                 "a_b",
		"server.with.dots":      "server-with-dots",
		"名前":                    "7ec26292",
		long:                    long[:48] + "-5aa1dce7",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
	} {
		must.CheckEqual(t, validName(original), want, original)
	}
}

func TestServersWhoseNamesBecomeTheSameHaveADigest(t *testing.T) {
	c, err := Parse("", "f",
		[]byte(`{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}, "a.b": {"command": "z"}}}`))
	must.Do(t, err)
	must.CheckThat(t, len(c.Servers) == 3 && c.Servers[0].Name == "a-b-c8687a08" && c.Servers[1].Name == "a-b" &&
		c.Servers[2].Name == "a-b-2e7336dc" && len(c.Problems) == 0, "%+v", c)
	s := must.Get(c.Find("a.b"))(t)
	must.CheckEqual(t, s.Original, "a.b", s)
}

func TestServersWhoseNamesAreTheSameAreReported(t *testing.T) {
	c, err := Parse("", "f",
		[]byte(`{"mcpServers": {"a b": {"command": "x"}, "c": {"command": "y"}, "a-b": {"command": "y"}, `+
			`"a-b-c8687a08": {"command": "z"}}}`))
	must.Do(t, err)
	must.CheckEqual(t, len(c.Servers), 2, c)
	must.CheckEqual(t, len(c.Problems), 2, c)
	must.CheckFails(t, must.Err(c.Find("a b")),
		`f:1: the names of the servers ["a b" "a-b-c8687a08"] all become a-b-c8687a08; rename one of them`)
}

func TestEntriesThatCannotBeUsedDoNotAffectTheOthers(t *testing.T) {
	c, err := Parse("", "f", []byte(`{"mcpServers": {"a": {"command": 1}, "b": {"command": "y"}}}`))
	must.That(t, err == nil && len(c.Servers) == 1 && c.Servers[0].Name == "b", "%+v %v", c, err)
	if _, err := c.Find("a"); err == nil || err.Error() != `f:1: server "a": command must be a string` {
		t.Error(err)
	}
}

// An unknown member of a file is an error, unless the file is that of another program and has no member of parley's
// own.
func TestUnknownMembersAreToleratedInFilesOfOtherProgramsOnly(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"mcp.json", `{"theme": 1, "mcpServers": {}}`, `error mcp.json:1: theme is unknown; if the file belongs to another program, leave it as it is, and add its servers with parley import mcp.json`},
		{"mcp.json", `{"mcpServers": {"a": {"command": "a", "lazzy": true}}}`,
			`problem mcp.json:1: server "a": lazzy is unknown; did you mean "lazy"?`},
		{"mcp.json", `{"mcpServers": {"a": {"command": "a", "autoApprove": []}}}`,
			`warning mcp.json:1: server "a": autoApprove has no effect`},
		{"mcp.json", `{"mcp": {"server": {}}}`, `error mcp.json:1: mcp.server is unknown; did you mean "servers"?`},
		{".cursor/mcp.json", `{"theme": 1, "mcpServers": {}}`, ``},
		{".cursor/mcp.json", `{"mcpServers": {"a": {"command": "a", "lazzy": true}}}`,
			`warning .cursor/mcp.json:1: server "a": lazzy has no effect`},
		{".cursor/mcp.json", `{"Policy": {"default": "deny"}, "mcpServers": {}}`,
			`warning .cursor/mcp.json:1: Policy has no effect; did you mean "policy"?`},
		{".cursor/mcp.json", `{"toolsets": {}, "theme": 1, "mcpServers": {}}`,
			`error .cursor/mcp.json:1: theme is unknown; if the file belongs to another program, leave it as it is, and add its servers with parley import .cursor/mcp.json`},
		{".cursor/mcp.json", `{"mcpServers": {}, "theme": 1, "$schema": "` + SchemaURI + `"}`,
			`error .cursor/mcp.json:1: theme is unknown; if the file belongs to another program, leave it as it is, and add its servers with parley import .cursor/mcp.json`},
		{".cursor/mcp.json", `{"mcpServers": {"a": {"command": "a", "tools": {"hid": ["*"]}}}}`,
			`problem .cursor/mcp.json:1: server "a": tools.hid is unknown; did you mean "hide"?`},
		{"not.cursor/mcp.json", `{"theme": 1, "mcpServers": {}}`,
			`error not.cursor/mcp.json:1: theme is unknown; if the file belongs to another program, leave it as it is, and add its servers with parley import not.cursor/mcp.json`},
		{"mcp.json", `{"theme": 1, "mcpServers": {}, "toolsets": {}}`, `error mcp.json:1: theme is unknown; remove it`},
		{".gemini/settings.json", `{"hooks": {"BeforeTool": []}, "theme": 1, "mcpServers": {}}`, ``},
		{".gemini/settings.json", `{"hooks": [{}], "mcpServers": {}}`,
			`error .gemini/settings.json:1: hooks[0]: "url" is missing`},
		{"mcp.json", `{"hooks": {}, "mcpServers": {}}`, `error mcp.json:1: hooks must be an array of objects`},
	} {
		read, err := Parse("", c.path, []byte(c.text))
		got := ""
		switch {
		case err != nil:
			got = "error " + err.Error()
		case len(read.Problems) > 0:
			got = "problem " + read.Problems[0].Err.Error()
		case len(read.Warnings) > 0:
			got = "warning " + read.Warnings[0]
		}
		must.CheckEqual(t, got, c.want, c.path, c.text)
	}
}

// Other programs spell the type of a server in many ways, write null for what it does not have, and begin files with a
// byte order mark.
func TestFilesAreReadAsTheirProgramsReadThem(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"f", "\ufeff{\r\n\"mcpServers\": {\"a\": {\"command\": \"x\"}}}", "a x"},
		{"f", `{"mcpServers": {"a": {"type": "streamable_http", "url": "http://x"}, "b": {"transport": ` +
			`"streamableHTTP", "url": "http://y"}, "c": {"transportType": "STDIO", "command": "z"}, "d": {"type": ` +
			`"SSE", "url": "http://z"}}}`, "a http://x, b http://y, c z, d http://z"},
		{"f", `{"mcpServers": {"a": {"transport": "stdio", "url": "http://x"}}}`,
			`problem f:1: server "a": type "stdio" requires a command`},
		{"f", `{"mcpServers": {"a": {"type": "websocket", "url": "http://x"}}}`,
			`problem f:1: server "a": unknown type "websocket"; use stdio or http`},
		{"f", `{"inputs": null, "servers": null, "mcpServers": {"a": {"type": null, "command": "x", "args": null, ` +
			`"env": null, "cwd": null, "url": null, "headers": null, "disabled": null, "includeTools": null}}}`, "a x"},
		{"f", `{"mcpServers": {"a": {"command": null, "url": null}}}`,
			`problem f:1: server "a": must have a command or a url`},
		// What limits is never absent because it is null.
		{"f", `{"mcpServers": {"a": {"command": "x", "tools": null}}}`,
			`problem f:1: server "a": tools must be an object`},
		{"f", `{"mcpServers": {"a": {"command": "x", "inputLimits": null}}}`,
			`problem f:1: server "a": inputLimits must be an object`},
		{"f", `{"mcpServers": {}, "policy": null}`, `error f:1: policy must be an object`},
		// Servers of both objects are used, but not one of two that differ, unless the program of the file uses it.
		{"f", `{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}, "a": {"type": "stdio", ` +
			`"command": "x"}}}`, "a x, b y"},
		{"f", `{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}}`,
			`problem f:1: there are several servers "a", at f:1, f:1; rename or remove one of them`},
		{".vscode/mcp.json", `{"servers": {"a": {"command": "x"}}, "mcpServers": {"a": {"command": "y"}}}`, "a x"},
		{".vscode/mcp.json", `{"mcpServers": {"a": {"command": "y"}}, "servers": {"a": {"command": "x"}}}`, "a x"},
		// Gemini CLI expands $NAME. What it leaves to a shell stays.
		{".gemini/settings.json",
			`{"mcpServers": {"a": {"command": "sh", "args": ["echo $B ${C} $1"], "env": {"A": "$B/${C}$$"}}}}`,
			"a sh echo ${B:-$B} ${C} $1 A=${B}/${C}$$"},
		{"copy/settings.json", `{"mcpServers": {"a": {"url": "http://x/$A"}}}`, "a http://x/${A}"},
		{".zed/settings.json", `{"context_servers": {"a": {"url": "http://x/$A"}}}`, "a http://x/$A"},
		{".cursor/mcp.json",
			`{"mcpServers": {"a": {"command": "sh", "args": ["$B"], "env": {"A": "$B", "C": "pa$word"}}}}`,
			`a sh $B A=$B C=pa$word, warning .cursor/mcp.json:1: server "a": $B is text, not a variable; write ${B}`},
	} {
		read, err := Parse("", c.path, []byte(c.text))
		var got []string
		if err != nil {
			got = append(got, "error "+err.Error())
			read = new(Config)
		}
		for i := range read.Servers {
			got = append(got, line(&read.Servers[i]))
		}
		for _, w := range read.Warnings {
			got = append(got, "warning "+w)
		}
		if len(read.Problems) > 0 {
			got = append(got, "problem "+read.Problems[0].Err.Error())
		}
		must.CheckEqual(t, strings.Join(got, ", "), c.want, c.path, c.text)
	}
}
