package config

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/client"
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
	"theme": "dark",
}`

func TestParseKeepsTheOrderOfTheFile(t *testing.T) {
	got, err := Parse("dir/mcp.json", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Path: "dir/mcp.json",
		Servers: []Server{
			{
				Name: "files", Command: "npx", Args: []string{"-y", "server-filesystem", "${ROOT:-.}"},
				Env: []Pair{{"TOKEN", "${TOKEN}"}, {"PLAIN", "$5 {x}"}}, Dir: "work",
			},
			{Name: "search", URL: "https://example.com/${TENANT}", Headers: []Pair{{"Authorization", "Bearer ${TOKEN}"}}},
			{Name: "off", Command: "x", Disabled: true},
		},
		Warnings: []string{
			`dir/mcp.json:10: server "files": autoApprove has no effect`,
			`dir/mcp.json:15: "theme" has no effect`,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Server{})); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
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

func TestTargetExpandsTheEnvironment(t *testing.T) {
	file, err := Parse("dir/mcp.json", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	env := environment("TOKEN=s3cret", "TENANT=acme")
	files, err := file.Servers[0].Target(env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&client.CommandTarget{CommandOptions: transport.CommandOptions{
		Path: "npx", Args: []string{"-y", "server-filesystem", "."}, Env: []string{"TOKEN=s3cret", "PLAIN=$5 {x}"}, Dir: filepath.Join("dir", "work"),
	}}, files); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	search, err := file.Servers[1].Target(env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&client.HTTPTarget{URL: "https://example.com/acme", Header: http.Header{"Authorization": {"Bearer s3cret"}}}, search); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	_, err = file.Servers[1].Target(environment("TENANT=acme"))
	if want := "header Authorization: environment variable TOKEN is not set; set it, or write ${TOKEN:-default}"; err == nil || err.Error() != want {
		t.Errorf("without the variable: error %v, want %s", err, want)
	}
}

func TestExpandReplacesReferences(t *testing.T) {
	env := environment("A=one", "EMPTY=", "B=${A}")
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain $A $ {A}", "plain $A $ {A}"},
		{"${A}", "one"},
		{"x${A}y${A}z", "xoneyonez"},
		{"${NONE:-}", ""},
		{"${NONE:-a b:c}", "a b:c"},
		{"${EMPTY:-default}", "default"},
		{"${EMPTY}", ""},
		{"${A:-default}", "one"},
		{"${B}", "${A}"}, // values are not expanded again
	} {
		if got, err := Expand(c.text, env); err != nil || got != c.want {
			t.Errorf("Expand(%q) = %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"${NONE}", "${", "${}", "${A", "${a b}", "${input:token}", "${1}"} {
		if got, err := Expand(text, env); err == nil {
			t.Errorf("Expand(%q) = %q, want an error", text, got)
		}
	}
}

func TestParseErrorsHaveALineAndAReason(t *testing.T) {
	server := func(body string) string { return "{\"mcpServers\": {\n\"a\": " + body + "}}" }
	for _, c := range []struct{ text, want string }{
		{" \n", `f: file is empty`},
		{`{"mcpServers": {`, `f: line 1, column 17: parsing value: unexpected end of file`},
		{`{"mcpServers": {]}`, `f: line 1, column 17: invalid character ']' at start of value`},
		{`[]`, `f:1: the file must be an object`},
		{`{}`, `f: member "mcpServers" is missing`},
		{`{"servers": {}}`, `f: member "mcpServers" is missing; rename "servers" to "mcpServers"`},
		{`{"mcpServers": []}`, `f:1: mcpServers must be an object`},
		{server(`1`), `f:2: server "a" must be an object`},
		{server(`{}`), `f:2: server "a": must have a command or a url`},
		{server(`{"command": "x", "url": "http://y"}`), `f:2: server "a": must not have both a command and a url`},
		{server(`{"command": ["x"]}`), `f:2: server "a": command must be a string`},
		{server(`{"command": "x", "args": "y"}`), `f:2: server "a": args must be an array of strings`},
		{server("{\"command\": \"x\",\n\"args\": [1]}"), `f:3: server "a": args[0] must be a string`},
		{server(`{"command": "x", "env": {"A": 1}}`), `f:2: server "a": env A must be a string`},
		{server(`{"command": "x", "env": {"A=B": "1"}}`), `f:2: server "a": env: invalid name or value for "A=B"`},
		{server(`{"url": "http://x", "headers": {"A": "1\r\nB: 2"}}`), `f:2: server "a": headers: invalid name or value for "A"`},
		{server(`{"command": "x\u0000"}`), `f:2: server "a": command must not contain a NUL character`},
		{server(`{"command": "x", "command": "y"}`), `f:2: server "a": duplicate member "command"`},
		{server(`{"command": "x", "disabled": "no"}`), `f:2: server "a": disabled must be true or false`},
		{server(`{"command": "x", "type": "http"}`), `f:2: server "a": type "http" requires a url`},
		{server(`{"url": "http://x", "type": "stdio"}`), `f:2: server "a": type "stdio" requires a command`},
		{server(`{"url": "http://x", "type": "carrier-pigeon"}`), `f:2: server "a": unknown type "carrier-pigeon"; use stdio or http`},
		{"{\"mcpServers\": {\n\"a b\": {\"command\": \"x\"}}}", `f:2: server name "a b" must have only letters, digits, hyphens and underscores`},
		{"{\"mcpServers\": {\n\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"y\"}}}", `f:3: mcpServers: duplicate member "a"`},
	} {
		_, err := Parse("f", []byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("Parse(%s)\nreturned %v\nwant     %s", c.text, err, c.want)
		}
	}
}

func TestFindReturnsAServerByName(t *testing.T) {
	file, err := Parse("mcp.json", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := file.Find("search"); err != nil || s.URL == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := file.Find("none"); err == nil || !strings.Contains(err.Error(), "files, search, off") {
		t.Error(err)
	}
}
