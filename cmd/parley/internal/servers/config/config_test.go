package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

const sample = `{
	// comments and trailing commas are allowed
	"mcpServers": {
		"files": {
			"type": "stdio",
			"command": "npx",
			"args": ["-y", "server-filesystem", "${ROOT:-.}"],
			"env": {"TOKEN": "${TOKEN}", "PLAIN": "$5 {x}"},
			"cwd": "work",
			"autoApprove": ["read"],
		},
		"search": {"type": "http", "url": "https://example.com/${TENANT}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"off": {"command": "x", "disabled": true},
	},
}`

func parse(t *testing.T, path, text string) *Config {
	t.Helper()
	c := must.Get(Parse("", path, []byte(text)))(t)
	return c
}

func TestParseKeepsTheOrderOfTheFile(t *testing.T) {
	got := parse(t, "dir/mcp.json", sample)
	want := &Config{
		Servers: []Server{
			{
				Name: "files", Original: "files", Source: "dir/mcp.json:4", Command: "npx",
				Args: []string{"-y", "server-filesystem", "${ROOT:-.}"},
				Env:  []Pair{{"TOKEN", "${TOKEN}"}, {"PLAIN", "$5 {x}"}}, Dir: "work",
			},
			{Name: "search", Original: "search", Source: "dir/mcp.json:12", URL: "https://example.com/${TENANT}",
				Headers: []Pair{{"Authorization", "Bearer ${TOKEN}"}}},
			{Name: "off", Original: "off", Source: "dir/mcp.json:13", Command: "x", Disabled: true},
		},
		Warnings: []string{`dir/mcp.json:10: server "files": autoApprove has no effect`},
	}
	diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Server{}, Config{}))
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
}

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestTargetExpandsReferences(t *testing.T) {
	file := parse(t, "dir/mcp.json", sample)
	env := &Values{Env: environment("TOKEN=s3cret", "TENANT=acme")}
	files := must.Get(file.Servers[0].Target(env))(t)
	if diff := cmp.Diff(&client.CommandTarget{CommandOptions: transport.CommandOptions{
		Path: "npx", Args: []string{"-y", "server-filesystem", "."}, Env: []string{"TOKEN=s3cret", "PLAIN=$5 {x}"},
		Dir: filepath.Join("dir", "work"),
	}}, files); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	search := must.Get(file.Servers[1].Target(env))(t)
	diff := cmp.Diff(&client.HTTPTarget{URL: "https://example.com/acme",
		Header: http.Header{"Authorization": {"Bearer s3cret"}}}, search)
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
	_, err := file.Servers[1].Target(&Values{Env: environment("TENANT=acme")})
	want := "header Authorization: environment variable TOKEN is not set; set it, or write " +
		"${TOKEN:-default}"
	must.CheckThat(t, err != nil && err.Error() == want, "without the variable: error %v, want %s", err, want)
	_, err = file.Servers[1].Target(&Values{Env: environment("TENANT=acme", "TOKEN=a\r\nX: b")})
	must.CheckThat(t, err != nil && !strings.Contains(err.Error(), "X: b"), "a header with a line feed: %v", err)
}

func TestEnvFileSetsVariables(t *testing.T) {
	server := func(path string) *Server {
		return &parse(t, "testdata/f", `{"mcpServers": {"a": {"command": "x", "env": {"TWO": "2"}, "envFile": "`+path+
			`"}}}`).Servers[0]
	}
	target := must.Get(server("${workspaceFolder}/.env").Target(&Values{Workspace: "."}))(t)
	diff := cmp.Diff([]string{"ONE=1", "TWO=two words", "TWO=2"}, target.(*client.CommandTarget).Env)
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
	_, err := server("none").Target(&Values{})
	must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), "envFile: "), "%v", err)
	bad := filepath.Join(t.TempDir(), "bad")
	must.Do(t, os.WriteFile(bad, []byte("SECRET value\n"), 0o600))
	_, err = server(filepath.ToSlash(bad)).Target(&Values{})
	must.CheckThat(t, err != nil && !strings.Contains(err.Error(), "SECRET"), "%v", err)
}

func TestInputsAreAskedFor(t *testing.T) {
	c, err := (&Files{Workspace: "testdata", Paths: []string{"testdata/vscode-mcp.json"}, Foreign: true}).Load()
	must.Do(t, err)
	asked := make(map[string]*Input)
	values := &Values{Workspace: "testdata", Input: func(in *Input,
		_ string) (string, error) {
		asked[in.ID] = in
		return "value", nil
	}}
	values.Workspace, _ = filepath.Abs("testdata")
	for i := range c.Servers {
		must.Get(c.Servers[i].Target(values))(t)
	}
	want := map[string]*Input{
		"token":  {ID: "token", Description: "Token", Secret: true},
		"region": {ID: "region", Description: "Region", Default: "eu", Options: []string{"eu", "us"}},
	}
	diff := cmp.Diff(want, asked)
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
	if _, err := c.Servers[0].Target(&Values{}); err == nil ||
		err.Error() != `header Authorization: input "token" has no value` {
		t.Error(err)
	}
	unknown := parse(t, "f", `{"servers": {"a": {"command": "${input:none}"}}}`)
	if _, err := unknown.Servers[0].Target(values); err == nil ||
		err.Error() != `command: input "none" is not defined in the file's inputs` {
		t.Error(err)
	}
}

func TestExpandReplacesReferences(t *testing.T) {
	v := &Values{
		Env: environment("A=one", "EMPTY=", "B=${A}"), Workspace: filepath.Join("w", "project"), Home: "h",
		Secret: func(service, account string) (string, error) {
			if service != "s" {
				return "", errors.New("not found")
			}
			return "secret of " + account, nil
		},
	}
	separator := string(filepath.Separator)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain $A $ {A}", "plain $A $ {A}"},
		{"${A}", "one"},
		{"${env:A}", "one"},
		{"x${A}y${A}z", "xoneyonez"},
		{"${NONE:-}", ""},
		{"${NONE:-a b:c}", "a b:c"},
		{"${EMPTY:-default}", "default"},
		{"${EMPTY}", ""},
		{"${A:-default}", "one"},
		{"${B}", "${A}"}, // values are not expanded again
		{"${workspaceFolder}|${workspaceFolderBasename}|${userHome}|${pathSeparator}|${/}",
			v.Workspace + "|project|h|" + separator + "|" + separator},
		{"${file:testdata/key.txt}", "secret"},
		{"${keyring:s/a/b}", "secret of a/b"},
	} {
		got, err := v.Expand(c.text)
		must.CheckThat(t, err == nil && got == c.want, "Expand(%q) = %q, %v, want %q", c.text, got, err, c.want)
	}
	for _, text := range []string{
		"${NONE}", "${", "${}", "${A", "${a b}", "${1}", "${env:NONE}", "${env:}", "${input:token}", "${file:none}",
		"${file:testdata}", "${command:x}",
		"${keyring:s}", "${keyring:/a}", "${keyring:other/a}", "${workspaceFolder:other}",
	} {
		got, err := v.Expand(text)
		must.CheckThat(t, err != nil, "Expand(%q) = %q, want an error", text, got)
	}
	must.CheckFails(t, must.Err((&Values{}).Expand("${keyring:s/a}")), "has no keyring")
}

func TestParseErrorsHaveALineAndAReason(t *testing.T) {
	server := func(body string) string { return "{\"mcpServers\": {\n\"a\": " + body + "}}" }
	for _, c := range []struct{ text, want string }{
		{" \n", `f: file is empty`},
		{`{"mcpServers": {`, `f: line 1, column 17: parsing value: unexpected end of file`},
		{`{"mcpServers": {]}`, `f: line 1, column 17: invalid character ']' at start of value`},
		{`[]`, `f:1: the file must be an object`},
		{`{}`, `f: field "mcpServers" is missing`},
		{`{"mcpServers": []}`, `f:1: mcpServers must be an object`},
		{`{"servers": 1}`, `f:1: servers must be an object`},
		{`{"mcp": {"servers": 1}}`, `f:1: mcp.servers must be an object`},
		{`{"mcp": {"inputs": []}}`, `f: field "mcpServers" is missing`},
		{`{"projects": {"p": 1}}`, `f:1: project "p" must be an object`},
		{`{"projects": {"p": {}}}`, `f: field "mcpServers" is missing`},
		{`{"servers": {}, "inputs": {}}`, `f:1: inputs must be an array of objects`},
		{`{"servers": {}, "inputs": [{}]}`, `f:1: inputs[0]: id is missing`},
		{`{"servers": {}, "inputs": [{"id": "a", "options": [{}]}]}`, `f:1: inputs[0]: options[0]: value is missing`},
		{server(`1`), `f:2: server "a" must be an object`},
		{server(`{}`), `f:2: server "a": must have a command or a url`},
		{server(`{"command": "x", "url": "http://y"}`), `f:2: server "a": must not have both a command and a url`},
		{server(`{"url": "http://y", "httpUrl": "http://z"}`), `f:2: server "a": must not have two URLs`},
		{server(`{"command": {"path": 1}}`), `f:2: server "a": command.path must be a string`},
		{server(`{"command": ["x"]}`), `f:2: server "a": command must be a string`},
		{server(`{"command": "x", "args": "y"}`), `f:2: server "a": args must be an array of strings`},
		{server("{\"command\": \"x\",\n\"args\": [1]}"), `f:3: server "a": args[0] must be a string`},
		{server(`{"command": "x", "env": {"A": []}}`), `f:2: server "a": env A must be a string`},
		{server(`{"command": "x", "env": {"A=B": "1"}}`), `f:2: server "a": env: invalid name or value for "A=B"`},
		{server(`{"url": "http://x", "headers": {"A": "1\r\nB: 2"}}`),
			`f:2: server "a": headers: invalid name or value for "A"`},
		{server(`{"command": "x\u0000"}`), `f:2: server "a": command must not contain a NUL character`},
		{server(`{"command": "x", "command": "y"}`), `f:2: server "a": duplicate field "command"`},
		{server(`{"command": "x", "disabled": "no"}`), `f:2: server "a": disabled must be true or false`},
		{server(`{"command": "x", "type": "http"}`), `f:2: server "a": type "http" requires a url`},
		{server(`{"url": "http://x", "type": "stdio"}`), `f:2: server "a": type "stdio" requires a command`},
		{server(`{"url": "http://x", "type": "carrier-pigeon"}`),
			`f:2: server "a": unknown type "carrier-pigeon"; use stdio or http`},
		{"{\"mcpServers\": {\n\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"y\"}}}",
			`f:3: mcpServers: duplicate field "a"`},
	} {
		file, err := Parse("", "f", []byte(c.text))
		if err == nil && len(file.Problems) > 0 {
			err = file.Problems[0].Err
		}
		must.CheckThat(t, err != nil && err.Error() == c.want,
			"Parse(%s)\nreturned %v\nwant     %s", c.text, err, c.want)
	}
}

func TestFindReturnsAServerByName(t *testing.T) {
	file := parse(t, "mcp.json", sample)
	s, err := file.Find("search")
	must.CheckThat(t, err == nil && s.URL != "", "%+v, %v", s, err)
	must.CheckFails(t, must.Err(file.Find("none")), "files, search, off")
}

func TestCredentialsAreRead(t *testing.T) {
	for text, want := range map[string]*Credentials{
		`{"type": "callerLogin"}`: {Type: CallerLogin},
		`{"type": "callerLogin", "networks": ["10.0.0.0/8", "fd00::/8"]}`: {
			Type: CallerLogin, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
				netip.MustParsePrefix("fd00::/8")},
		},
		`{"type": "callerLogin", "clientId": "id", "clientSecret": "${SECRET}"}`: {Type: CallerLogin, ClientID: "id",
			ClientSecret: "hunter2"},
		`{"type": "tokenExchange", "tokenEndpoint": "https://as.example/token", "clientId": "id", "clientSecret": ` +
			`"${SECRET}", "audience": "api", "scopes": ["a", "b"], "subjectTokenType": "urn:x"}`: {
			Type: TokenExchange, TokenEndpoint: "https://as.example/token", ClientID: "id", ClientSecret: "hunter2",
			Audience: "api", Scopes: []string{"a", "b"}, SubjectTokenType: "urn:x",
		},
		`{"type": "enterprise", "issuer": "https://idp.example", "clientId": "id", "clientSecret": "${SECRET}", ` +
			`"serverIssuer": "https://as.example", "serverClientId": "other", "serverClientSecret": "${SECRET}"}`: {
			Type: Enterprise, Issuer: "https://idp.example", ClientID: "id", ClientSecret: "hunter2",
			ServerIssuer: "https://as.example", ServerClientID: "other", ServerClientSecret: "hunter2",
		},
	} {
		data := `{"$schema": "` + SchemaURI +
			`", "mcpServers": {"up": {"url": "https://mcp.example/mcp", "credentials": ` + text + `}}}`
		if err := validate(t, []byte(data)); err != nil {
			t.Errorf("the schema rejects %s: %v", text, err)
		}
		c, err := Parse("/", "f", []byte(data))
		if err != nil || len(c.Warnings)+len(c.Problems) > 0 {
			t.Fatalf("%s: %v %v %v", text, err, c.Warnings, c.Problems)
		}
		values := &Values{Env: func(name string) (string, bool) { return "hunter2", name == "SECRET" }}
		got, err := c.Servers[0].CallerCredentials(values)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool {
			return a == b
		})); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestHeadersOfCallersAreRead(t *testing.T) {
	const text = `{"policy": {"default": "allow"}, "mcpServers": {"up": {"url": "https://mcp.example/mcp", ` +
		`"callerHeaders": {"X-Jira-Token": "Authorization: Bearer ${value}"}}}}`
	c := must.Get(Parse("/", "f", []byte(text)))(t)
	must.Do(t, validate(t, []byte(text)))
	want := map[string]string{"X-Jira-Token": "Authorization: Bearer ${value}"}
	must.CheckEqual(t, cmp.Diff(want, c.Servers[0].Settings().CallerHeaders), "")
	must.CheckContains(t, fmt.Sprint(c.Servers[0].Members()), "callerHeaders")
	const headers = `, "callerHeaders": {"X-Key": "X-Key: ${value}"}`
	const url = `"url": "https://mcp.example"`
	for server, want := range map[string]string{
		`"command": "program"` + headers:                           "callerHeaders requires a url, because a program receives",
		url + `, "sharing": "everyone"` + headers:                  `cannot be combined with sharing "everyone"`,
		url + `, "credentials": {"type": "callerLogin"}` + headers: "both credentials and callerHeaders",
		url + `, "callerHeaders": {"Cookie": "X-Key: ${value}"}`:   "Cookie must not be passed on",
	} {
		c, err := Parse("/", "f", []byte(`{"mcpServers": {"up": {`+server+`}}}`))
		if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", server, err, c.Problems, want)
		}
	}
	// The file of a project must not collect the keys of callers.
	c = must.Get(Parse("/", "/project/.mcp.json", []byte(`{"mcpServers": {"up": {"url": "https://mcp.example", `+
		`"callerHeaders": {"X-Key": "X-Key: ${value}"}}}}`)))(t)
	must.CheckThat(t, len(c.Problems) == 1 &&
		strings.Contains(c.Problems[0].Err.Error(), "add the server to your own configuration"), "%v", c.Problems)
}

func TestInvalidCredentialsAreReported(t *testing.T) {
	const url = `"url": "https://mcp.example/mcp", `
	for server, want := range map[string]string{
		`{` + url +
			`"credentials": {}}`: `credentials must have the type "callerLogin", "tokenExchange" or "enterprise"`,
		`{` + url +
			`"credentials": {"type": "static"}}`: `credentials must have the type`,
		`{` + url +
			`"credentials": {"type": "callerLogin", "issuer": "https://as.example"}}`: `must not have fields other than ` +
			`clientId, clientSecret and networks`,
		`{` + url +
			`"credentials": {"type": "callerLogin", "clientSecret": "x"}}`: `must have a clientId`,
		`{` + url +
			`"credentials": {"type": "callerLogin", "scopes": ["a"]}}`: `must not have scopes`,
		`{` + url +
			`"credentials": {"type": "tokenExchange"}}`: `must have an issuer or a tokenEndpoint`,
		`{` + url +
			`"credentials": {"type": "tokenExchange", "issuer": "https://a", "serverClientId": ` +
			`"x"}}`: `must not have serverIssuer`,
		`{` + url +
			`"credentials": {"type": "enterprise", "issuer": "https://a"}}`: `must have issuer, serverClientId and ` +
			`serverClientSecret`,
		`{` + url +
			`"sharing": "everyone", "credentials": {"type": "callerLogin"}}`: `cannot be combined with sharing "everyone"`,
		`{` + url +
			`"credentials": {"type": "callerLogin", "networks": ["10.0.0.1"]}}`: `"10.0.0.1" must be a network`,
		`{` + url +
			`"credentials": {"type": "tokenExchange", "issuer": "https://a", "networks": ` +
			`["10.0.0.0/8"]}}`: `must not have networks`,
		`{"command": "program", "credentials": {"type": "callerLogin"}}`: `credentials require a url`,
	} {
		c, err := Parse("/", "f", []byte(`{"mcpServers": {"up": `+server+`}}`))
		if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", server, err, c.Problems, want)
		}
	}
}

func TestPlainSecretsAreFoundByTheirNamesAndInURLs(t *testing.T) {
	s := &Server{
		Env: []Pair{
			{"GITHUB_TOKEN", "abc"}, {"API_KEY", "${API_KEY}"}, {"OPENAI_APIKEY", "abc"}, {"REGION", "eu"},
			{"KEYBOARD", "de"}, {"PASSWORD", ""},
			{"PGPASS", "abc"}, {"MYSQL_PWD", "abc"}, {"SSH_ASKPASS", "/bin/ask"}, {"PWD", "/srv"},
			{"ENABLE_AUTH", "true"},
			{"DATABASE", "postgres://ada:abc@db/x"}, {"OTHER", "postgres://ada:${PW}@db/x"},
			{"REPO", "ssh://git@example.com/a"}, {"GIT", "https://abc@example.com/a"},
		},
		Headers: []Pair{{"Authorization", "Bearer abc"}, {"X-Api-Key", "${keyring:a/b}"}, {"X-Region", "eu"},
			{"X-Auth", "abc"}},
		Args: []string{
			"--token", "abc", "--api-key=${KEY}", "--secret=abc", "--password", "--verbose", "token", "-H",
			"X-Auth: abc", "-HX-Auth: ${A}",
			"--header=Authorization: Basic abc", "-e", "GITHUB_TOKEN=abc", "redis://:abc@cache",
			"--url=https://example.com/", "--auth", "none", "https://mcp.example.com",
			"https://mcp.example.com/sse?x=1&token=abc", "--url=https://example.com/?api_key=abc",
		},
		URL: "https://user:abc@example.com/mcp?page=abc&access_token=abc&x=1",
	}
	var found []string
	secrets := PlainSecrets(s)
	for _, secret := range secrets {
		found = append(found, secret.Where)
	}
	want := []string{
		"env GITHUB_TOKEN", "env OPENAI_APIKEY", "env PGPASS", "env MYSQL_PWD", "the password of env DATABASE",
		"the user of env GIT", "header Authorization", "header X-Auth",
		"argument token", "argument secret", "argument X-Auth", "argument Authorization", "argument GITHUB_TOKEN",
		"the password of an argument", "parameter token of an argument", "parameter api_key of an argument",
		"the password of the url", "parameter access_token of the url",
	}
	must.CheckThat(t, slices.Equal(found, want), "found %q, want %q", found, want)
	// A reference replaces each secret, and nothing else changes.
	for _, secret := range slices.Backward(secrets) {
		text := secret.Replace("${S}")
		must.CheckThat(t, text == "abc", "%s: the secret is %q", secret.Where, text)
	}
	for text, want := range map[string]string{
		"https://h/?token=a&u=https://b:c@d":     "https://h/?token=${S}&u=https://b:${S}@d",
		"https://h/?token=https://a:b@c&x=1":     "https://h/?token=${S}&x=1",
		"https://h/?u=https://a:b&token=ccccc@d": "https://h/?u=https://a:b&token=${S}",
	} {
		inQuery := &Server{URL: text}
		for _, secret := range slices.Backward(PlainSecrets(inQuery)) {
			secret.Replace("${S}")
		}
		must.CheckThat(t, inQuery.URL == want, "%s becomes %s, want %s", text, inQuery.URL, want)
	}
	must.CheckThat(t, len(PlainSecrets(s)) == 0 &&
		s.URL == "https://user:${S}@example.com/mcp?page=abc&access_token=${S}&x=1" &&
		s.Headers[0].Value == "Bearer ${S}" && s.Env[11].Value == "postgres://ada:${S}@db/x" &&
		s.Args[10] == "--header=Authorization: Basic ${S}", "the server is %+v", s)
}

func TestArgumentsAreShownWithoutSecrets(t *testing.T) {
	args := []string{
		"-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/srv/documents", "--token", "abc", "--key=abc",
		"-k", "sk-aBcD1234efgh5678ijkl",
		"https://u:p@example.com/sse?token=abc&page=1", "https://example.com/hooks/T0B1C2D3E4F5G6H7I8J9K0",
		"postgres://ada:pw@db/x", "-p",
		"6f1c3a52-0000-4000-8000-0123456789ab", "KEY=${KEY}", "eyJhbGciOiJIUzI1NiIsInR5cCI6.e30.x", "--verbose",
		"2026-07-28", "server-everything-for-all-of-us-2",
	}
	want := []string{
		"-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/srv/documents", "--token", "…", "--key=…", "-k",
		"…",
		"https://u:…@example.com/sse?token=…&page=1", "https://example.com/hooks/…", "postgres://ada:…@db/x", "-p",
		"…", "KEY=${KEY}", "…", "--verbose", "2026-07-28", "server-everything-for-all-of-us-2",
	}
	before := slices.Clone(args)
	got := Masked(args)
	must.CheckThat(t, slices.Equal(got, want) && slices.Equal(args, before), "got %q, want %q", got, want)
}

// Rules without members are rules, too: a program may access nothing then.
func TestAConfinedProgramIsStartedByParley(t *testing.T) {
	t.Chdir(t.TempDir())
	folder := must.Get(os.Getwd())(t)
	c := must.Get(Parse("", "mcp.json", []byte(`{"mcpServers": {
		"none": {"command": "a", "args": ["b"]},
		"empty": {"command": "a", "args": ["b"], "confine": {}},
		"paths": {"command": "a", "args": ["b"], "confine": {"read": ["~", "~/x", "y", "${NAME}", "~z"]}}}}`)))(t)
	values := &Values{Home: "/home/ada", Env: func(string) (string, bool) { return "/env", true }}
	for i, want := range [][]string{nil, {}, {"/home/ada", "/home/ada/x", folder + "/y", "/env", folder + "/~z"}} {
		s := &c.Servers[i]
		target := must.Get(s.Target(values))(t).(*client.CommandTarget)
		rules := confine.Of(target.Args)
		if want == nil {
			if rules != nil || target.Path != "a" {
				t.Errorf("%s: starts %s with %+v", s.Name, target.Path, rules)
			}
			continue
		}
		if rules == nil || !slices.Equal(rules.Read, want) || !slices.Equal(target.Args[len(target.Args)-2:],
			[]string{"a", "b"}) {
			t.Errorf("%s: %q starts with %+v", s.Name, target.Args, rules)
		}
		again := must.Get(s.Target(values))(t)
		if diff := cmp.Diff(target, again); diff != "" {
			t.Errorf("%s: a reload would restart it: %s", s.Name, diff)
		}
		if Same(s, &c.Servers[0]) {
			t.Errorf("%s is the same as a server without rules", s.Name)
		}
	}
}

// A program that can change its configuration file could remove its own rules.
func TestAConfinedProgramCannotWriteItsConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "project"), 0o700))
	must.Do(t, os.Symlink(dir, filepath.Join(dir, "project", "link")))
	path := filepath.Join(dir, "project", "mcp.json")
	for write, allowed := range map[string]bool{".": false, "..": false, "link": false, dir: false, "/": false, "~": false,
		"out": true, "../other": true} {
		c := must.Get(Parse("", path, []byte(`{"mcpServers": {"a": {"command": "a", "confine": {"write": ["`+write+`"]}}}}`)))(t)
		_, err := c.Servers[0].Target(&Values{Home: dir})
		must.CheckThat(t, allowed == (err == nil) &&
			(err == nil || strings.Contains(err.Error(), "contains the configuration file")), "%s: %v", write, err)
	}
}

func TestHooksAreRead(t *testing.T) {
	c, err := Parse("/", "mcp.json",
		[]byte(`{"hooks":[{"url":"https://a"},{"url":"https://b","on":["response"],"server":"s","tool":"t*",`+
			`"timeout":"90s"}]}`))
	must.That(t, err == nil && len(c.Hooks) == 2, "%+v, %v", c, err)
	a := c.Hooks[0]
	must.CheckThat(t, a.URL == "https://a" && a.Request && a.Response && a.Server == "" && a.Timeout == 0 &&
		a.Source == "mcp.json:1", "%+v", a)
	if b := c.Hooks[1]; b.Request || !b.Response || b.Server != "s" || b.Tool != "t*" || b.Timeout != 90*time.Second {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		`{"hooks":{}}`:                          "hooks must be an array",
		`{"hooks":[{}]}`:                        `hooks[0]: "url" is missing`,
		`{"hooks":[{"url":"x","on":[]}]}`:       `hooks[0].on must have "request", "response" or both`,
		`{"hooks":[{"url":"x","on":["all"]}]}`:  `must have only "request" and "response", not "all"`,
		`{"hooks":[{"url":"x","ons":[]}]}`:      "hooks[0].ons is unknown",
		`{"hooks":[{"url":"x","timeout":"5"}]}`: "hooks[0].timeout must be a positive duration",
	} {
		must.CheckFails(t, must.Err(Parse("/", "mcp.json", []byte(text))), want, text)
	}
}
