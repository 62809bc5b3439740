package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/internal/must"
)

// Every server of the files of all programs is the same after it was written to parley's own file.
func TestServersAreWrittenAsTheyWereRead(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.json"))(t)
	for _, path := range files {
		read := must.Get((&Files{Workspace: "/home/user/work", Paths: []string{path}, Foreign: true}).Load())(t)
		own := must.Get(jsonedit.Open(filepath.Join(t.TempDir(), "config.json")))(t)
		for i := range read.Servers {
			_, err := Set(own, &read.Servers[i])
			must.Do(t, errors.Join(err, AddInputs(own, &read.Servers[i])), path)
		}
		if len(read.Servers) == 0 {
			continue
		}
		if err := validate(t, own.Bytes()); err != nil {
			t.Errorf("%s: %v\n%s", path, err, own.Bytes())
		}
		written, err := Parse("", own.Path(), own.Bytes())
		if err != nil || len(written.Problems)+len(written.Warnings) > 0 {
			t.Errorf("%s: %v %v", path, err, written)
			continue
		}
		ignored := []cmp.Option{cmpopts.IgnoreFields(Server{}, "Original", "Source"),
			cmpopts.IgnoreUnexported(Server{})}
		must.CheckEqual(t, cmp.Diff(read.Servers, written.Servers, ignored...), "", path, "read (-), written (+")
		for i := range read.Servers {
			must.CheckEqual(t, cmp.Diff(read.Servers[i].UsedInputs(), written.Servers[i].UsedInputs()), "", path)
		}
	}
}

func TestSetReportsAnEntryThatCannotBeUsed(t *testing.T) {
	own := must.Get(jsonedit.Open(filepath.Join(t.TempDir(), "config.json")))(t)
	must.CheckFails(t, must.Err(Set(own, &Server{Name: "a", URL: "example.com"})),
		"must begin with http:// or https://")
}

func TestDetachedServersHaveAbsolutePaths(t *testing.T) {
	c, err := Parse("", "/srv/files/mcp.json",
		[]byte(`{"mcpServers": {"a": {"command": "a", "cwd": "work", "envFile": ".env", "roots": [".", "${userHome}"],
		"confine": {"read": ["~/a", "b"], "write": ["/c"]},
		"env": {"KEY": "<${file:key.txt}${NAME}${file:/etc/key}>"}}}}`))
	must.Do(t, err)
	s := &c.Servers[0]
	must.Do(t, s.Detach())
	got := strings.Join(slices.Concat([]string{s.Dir, s.EnvFile, s.Env[0].Value}, s.Roots, s.Confine.Read,
		s.Confine.Write), " ")
	want := "/srv/files/work /srv/files/.env <${file:/srv/files/key.txt}${NAME}${file:/etc/key}> /srv/files " +
		"${userHome} ~/a /srv/files/b /c"
	must.CheckEqual(t, got, want)
}

func TestAnInputWithAnotherMeaningIsNotAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	must.Do(t, os.WriteFile(path,
		[]byte(`{"mcpServers": {}, "inputs": [{"type": "promptString", "id": "token", "description": "Other"}]}`),
		0o600))
	own := must.Get(jsonedit.Open(path))(t)
	c, err := Parse("", "f",
		[]byte(`{"servers": {"a": {"url": "https://example.com/${input:token}"}}, "inputs": [{"id": "token", `+
			`"description": "Mine"}]}`))
	must.Do(t, err)
	must.CheckFails(t, AddInputs(own, &c.Servers[0]), `has another input "token"`)
}

// loaded loads files that are given as their names and contents, in this order. A file whose name begins with
// "deciding" decides.
func loaded(t *testing.T, contents ...string) (*Config, string) {
	t.Helper()
	t.Chdir(t.TempDir())
	f := &Files{}
	for _, content := range contents {
		name, text, isNew := strings.Cut(content, " ")
		if isNew {
			must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		}
		f.Paths = append(f.Paths, name)
		if strings.HasPrefix(name, "deciding") {
			f.Deciding = append(f.Deciding, filepath.Join(".", name))
		}
	}
	c, err := f.Load()
	must.Do(t, err)
	if err = c.Check(); err != nil {
		return c, err.Error()
	}
	return c, ""
}

const (
	oneServer = `"mcpServers": {"one": {"command": "1"}}`
	denyAll   = `"policy": {"default": "deny"}`
)

// Whichever file comes last, it neither replaces what another decides nor decides about the servers of others.
func TestFilesDecideAboutTheirOwnServersUnlessTheyAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  string // an error, or what each policy and webhook is not for
	}{
		"a single file": {[]string{`a {` + oneServer + `, ` + denyAll + `}`}, "policy a:1 not for []"},
		"the deciding file": {[]string{`a {` + oneServer + `}`, `deciding {` + denyAll + `}`},
			"policy deciding:1 not for []"},
		"in the other order": {[]string{`deciding {` + denyAll + `}`, `a {` + oneServer + `}`},
			"policy deciding:1 not for []"},
		"a file with two paths": {[]string{`a {` + oneServer + `, "toolsets": {"x": {"servers": ["one"]}}, ` + denyAll +
			`, "hooks": [{"url": "https://h"}]}`, `./a`}, "policy a:1 not for [] webhook a:1 not for []"},
		"two deciding files": {[]string{`deciding1 {` + oneServer + `, ` + denyAll + `}`,
			`deciding2 {"policy": {"default": "allow"}}`},
			"policy deciding1:1 not for [] policy deciding2:1 not for []"},
		"a later file": {[]string{`deciding {` + oneServer + `, ` + denyAll + `}`,
			`b {"mcpServers": {"two": {"command": "2"}}, "policy": {"default": "allow"}, "hooks": [{"url": ` +
				`"https://h"}]}`}, "policy deciding:1 not for [] policy b:1 not for [one] webhook b:1 not for [one]"},
		"a server of both": {[]string{`deciding {` + oneServer + `}`,
			`b {` + oneServer + `, ` + denyAll + `, "hooks": [{"url": "https://h"}]}`},
			"policy b:1 not for [] webhook b:1 not for [one]"},
		"both, in other order": {[]string{`b {` + oneServer + `, ` + denyAll + `, "hooks": [{"url": "https://h"}]}`,
			`deciding {` + oneServer + `}`}, "policy b:1 not for [] webhook b:1 not for [one]"},
		"without servers": {[]string{`a {` + oneServer + `}`, `b {` + denyAll + `}`},
			"b:1: the policy is for no server, because its file has none; name the file with --policy"},
		"hooks alone": {[]string{`a {` + oneServer + `}`, `b {"hooks": [{"url": "https://h"}]}`},
			"b:1: the webhook is for no server"},
		"no deciding file": {[]string{`a {` + oneServer + `, ` + denyAll + `}`,
			`b {"mcpServers": {"two": {"command": "2"}}}`},
			`a:1: the policy is for the servers of its own file only, and not for ["two"]; name the file that decides`},
		"a toolset": {[]string{`deciding {` + oneServer + `}`,
			`b {"toolsets": {"all": {"servers": ["*"]}}}`},
			`b:1: toolset "all" is for the servers of all files; name its file with --policy`},
		"a default toolset": {[]string{`deciding {` + oneServer + `, "toolsets": {"x": {"servers": ["one"]}}}`,
			`b {"mcpServers": {}, "defaultToolset": "x"}`}, `b: defaultToolset is for the servers of all files`},
		"two equal toolsets": {[]string{`deciding1 {` + oneServer + `, "toolsets": {"x": {"servers": ["one"]}}}`,
			`deciding2 {"toolsets": {"x": {"servers": ["*"]}}}`},
			`deciding2:1: toolset "x" is in two files, also at deciding1:1`},
		"two default toolsets": {[]string{`deciding1 {` + oneServer +
			`, "toolsets": {"x": {"servers": ["one"]}, "y": {"servers": ["one"]}}, "defaultToolset": "x"}`,
			`deciding2 {"mcpServers": {}, "defaultToolset": "y"}`},
			`deciding2: another file has the defaultToolset "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			c, got := loaded(t, test.files...)
			if got == "" {
				var words []string
				for _, p := range c.Policies {
					words = append(words, fmt.Sprintf("policy %s not for %v", p.Source, p.Except))
				}
				for i := range c.Hooks {
					words = append(words, fmt.Sprintf("webhook %s not for %v", c.Hooks[i].Source, c.Hooks[i].Except))
				}
				got = strings.Join(words, " ")
			}
			must.CheckThat(t, strings.HasPrefix(got, test.want), "got  %s\nwant %s", got, test.want)
		})
	}
}

// A server cannot displace one of another file, and with it its limits.
func TestServersOfOneNameAreUsedFromTheDecidingFileOrNotAtAll(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  string
	}{
		"the deciding file first": {[]string{`deciding {"mcpServers": {"a": {"command": "mine"}}}`,
			`b {"mcpServers": {"a": {"command": "theirs"}}}`}, "a mine"},
		"the deciding file last": {[]string{`b {"mcpServers": {"a": {"command": "theirs"}}}`,
			`deciding {"mcpServers": {"a": {"command": "mine"}}}`}, "a mine"},
		"a name that becomes one": {[]string{`b {"mcpServers": {"a b": {"command": "theirs"}}}`,
			`deciding {"mcpServers": {"a-b": {"command": "mine"}}}`}, "a-b mine"},
		"no deciding file": {[]string{`a {"mcpServers": {"a": {"command": "1"}, "x": {"command": "x"}}}`,
			`b {"mcpServers": {"a": {"command": "2"}}}`},
			`x x problem a:1: there are several servers "a", at a:1, b:1; rename or remove one of them problem b:1: ` +
				`there are several servers "a", at a:1, b:1; rename or remove one of them`},
		"the same server": {[]string{`a {"mcpServers": {"a": {"command": "1", "cwd": "w"}}}`,
			`b {"servers": {"a": {"type": "stdio", "command": "1", "cwd": "w"}}}`}, "a 1 w"},
	} {
		t.Run(name, func(t *testing.T) {
			c, got := loaded(t, test.files...)
			for i := range c.Servers {
				got += " " + line(&c.Servers[i])
			}
			for _, p := range c.Problems {
				got += " problem " + p.Err.Error()
			}
			got = strings.TrimSpace(got)
			must.CheckThat(t, got == test.want, "got  %s\nwant %s", got, test.want)
		})
	}
}

// A rule for a name that does not exist would be ignored, also one for the name that a server's name becomes.
func TestNamesThatDoNotExistAreErrors(t *testing.T) {
	const servers = `"mcpServers": {"my server": {"command": "a"}, "files": {"command": "b", "prefix": "fs", ` +
		`"extensions": {"com.example/j": {"requests": ["jobs/run"]}}}, "bad": {}}`
	for member, want := range map[string]string{
		`"policy": {"default": "allow", "rules": [{"server": "my server", "action": "deny"}, {"server": "f?les", ` +
			`"method": "tools/*", "action": "deny"}, {"server": "bad", "action": "deny"}, {"method": "jobs/run", ` +
			`"action": "deny"}]}`: "",
		`"policy": {"default": "allow", "rules": [{"server": "my-server", "action": ` +
			`"deny"}]}`: `f:1: policy.rules[0].server: no server has the name "my-server"; did you mean "my server"?`,
		`"policy": {"default": "allow", "rules": [{"server": "prod-*", "action": ` +
			`"deny"}]}`: `f:1: policy.rules[0].server: no server has the name "prod-*"; correct or remove it`,
		`"policy": {"default": "allow", "rules": [{"method": "tool/call", "action": ` +
			`"deny"}]}`: `f:1: policy.rules[0].method: no request has the method "tool/call"; did you mean ` +
			`"tools/call"?`,
		`"hooks": [{"url": "https://h", "server": "file"}]`: `f:1: webhook: no server has the name "file"; did you ` +
			`mean "files"?`,
		`"toolsets": {"t": {"servers": ["fils"]}}`: `f:1: toolset "t": no server has the name "fils"; did ` +
			`you mean "files"?`,
		`"toolsets": {"t": {"servers": ["my server"]}}`: "",
		`"toolsets": {}, "defaultToolset": "t"`:         `f: defaultToolset "t" is not one of the toolsets`,
	} {
		c := must.Get(Parse("", "f", []byte(`{`+servers+`, `+member+`}`)))(t)
		got := ""
		if err := c.Check(); err != nil {
			got = err.Error()
		}
		must.CheckEqual(t, got, want, member)
	}
	c := parse(t, "f",
		`{"mcpServers": {"my server": {"command": "a"}}, "toolsets": {"t": {"tools": ["my_server__read", `+
			`"my-server__*"]}}}`)
	if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(),
		`f:1: toolset "t": no server has names that match "my_server__read"; `) || strings.Contains(err.Error(), "\n") {
		t.Errorf("names of tools: %v", err)
	}
}

// A toolset selects servers by their written names, and no other server whose name becomes similar.
func TestToolsetsSelectServersByTheirWrittenNames(t *testing.T) {
	const servers = `{"mcpServers": {"my server": {"command": "a"}, "my.other": {"command": "b"}, "plain": ` +
		`{"command": "c"}}, "toolsets": {"t": {"servers": %s}}}`
	for patterns, want := range map[string]string{
		`["my server"]`: "[my-server]", `["my-*"]`: "[]", `["my*"]`: "[my*]", `["plain", "my.*"]`: "[my-other plain]",
		`["pl*"]`: "[pl*]",
	} {
		must.CheckEqual(t, fmt.Sprint(parse(t, "f", fmt.Sprintf(servers, patterns)).Toolsets[0].HostServers()), want,
			patterns)
	}
}
