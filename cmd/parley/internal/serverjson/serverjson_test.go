package serverjson

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// check returns the findings of a file as text.
func check(t *testing.T, file string) []string {
	t.Helper()
	findings := must.Get(Check([]byte(file)))(t)
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%d %s %s: %s", f.Line, f.Level, f.Path, f.Text))
		if f.Fix == "" && !strings.Contains(f.Text, "must ") && !strings.HasPrefix(f.Text, "expected ") &&
			f.Text != "member has no effect" {
			t.Errorf("%s: no fix", all[len(all)-1])
		}
	}
	return all
}

func valid(t *testing.T) string {
	t.Helper()
	file := must.Get(os.ReadFile("testdata/server.json"))(t)
	return string(file)
}

func TestAValidFileHasNoFindings(t *testing.T) {
	if got := check(t, valid(t)); len(got) > 0 {
		t.Errorf("findings %q", got)
	}
}

// Each case replaces a part of the valid file. The findings begin with what is wanted.
func TestFindingsNameTheLineThePlaceAndTheFault(t *testing.T) {
	file := valid(t)
	for _, c := range []struct{ old, new, want string }{
		// The form.
		{`"1.0.2",`, `1,`, "5 problem /version: expected string, got number 1"},
		{`"description": "Forecasts for cities",`, ``, "1 problem /description: required member is missing"},
		{`"Forecasts for cities"`, `"` + strings.Repeat("x", 101) + `"`,
			"4 problem /description: expected at most 100 characters, got 101"},
		{`"48x48"`, `"48"`, `10 problem /icons/0/sizes/0: expected string matching`},
		{`"theme": "dark"`, `"theme": "blue"`,
			`10 problem /icons/0/theme: expected one of "light", "dark", got string "blue"`},
		{`"format": "number"`, `"format": "int"`,
			`17 problem /packages/0/packageArguments/0/format: expected one of "string", "number", "boolean", ` +
				`"filepath", got string "int"`},
		{`"type": "stdio"`, `"type": "http"`,
			`19 problem /packages/0/transport/type: expected one of "stdio", "streamable-http", "sse", got string ` +
				`"http"`},
		{`{"type": "sse",`, `{"type": "stdio",`,
			`32 problem /remotes/0/type: expected one of "streamable-http", "sse", got string "stdio"`},
		{`"fileSha256": "0`, `"fileSha256": "`, `28 problem /packages/2/fileSha256: expected string matching`},
		{`"name": "io.github.example/weather",`, `"name": "io.github.example/weather", "name": "a.b/c",`,
			"3 problem /name: member is given twice"},
		{`"version": "1.0.2",`, `"version": "1.0.2", // comment`, "5 problem "},
		// The schema.
		{"schemas/2025-12-11/", "schemas/2025-09-29/",
			"2 warning /$schema: schema 2025-09-29 is old; the current one is 2025-12-11"},
		{"schemas/2025-12-11/", "schemas/2099-12-11/",
			"2 warning /$schema: schema is newer than 2025-12-11, which parley knows"},
		{"schemas/2025-12-11/", "schemas/2025-01-01/", "2 problem /$schema: schema is unknown"},
		// Names and versions.
		{"io.github.example/weather", "weather", "3 problem /name: name must be a namespace, one slash and a name"},
		{"io.github.example/weather", "a.b/c/d", "3 problem /name: name must be a namespace, one slash and a name"},
		{"io.github.example/weather", "-io.github/weather", "3 problem /name: name must be a namespace, one slash and a name"},
		{"io.github.example/weather", "io.github/w", "3 problem /name: name must be a namespace, one slash and a name"},
		{"io.github.example/weather", "example/weather", "3 warning /name: namespace is not a domain in reverse order"},
		{`"version": "1.0.2",`, `"version": "latest",`, `5 problem /version: version must not be "latest"`},
		{`"version": "1.0.3"`, `"version": "^1.0.3"`, "14 problem /packages/0/version: version must not be a range"},
		{`"title": "Weather"`, `"title": " "`, "6 problem /title: title must have a character"},
		// URLs.
		{"https://weather.example.com/", "http://weather.example.com/",
			"7 problem /websiteUrl: URL must begin with https://"},
		{"https://weather.example.com/icon.png", "data:image/png;base64,AA",
			"10 problem /icons/0/src: URL must begin with https://"},
		{"https://github.com/example/weather\"", "https://github.com/example\"",
			"8 problem /repository/url: URL must be that of a repository at github.com"},
		{`"source": "github"`, `"source": "gitlab"`,
			"8 problem /repository/url: URL must be that of a repository at gitlab.com"},
		{`"source": "github"`, `"source": "other"`, "8 problem /repository/source: source must be github or gitlab"},
		{`"subfolder": "src"`, `"subfolder": "../src"`,
			"8 problem /repository/subfolder: subfolder must be a relative path"},
		// Packages.
		{`"registryType": "npm"`, `"registryType": "maven"`,
			"13 problem /packages/0/registryType: the official registry does not accept packages of this type"},
		{`, "version": "1.0.3"`, ``, "12 problem /packages/0/version: required member is missing"},
		{`"@example/weather"`, `"@example/the weather"`,
			"14 problem /packages/0/identifier: identifier must not have spaces"},
		{`"version": "1.0.3"`, `"version": "1.0.3", "fileSha256": "` + strings.Repeat("0", 64) + `"`,
			"14 problem /packages/0/fileSha256: member must be absent"},
		{`docker.io/example/weather:1.0.2`, `docker.io/example/weather`,
			"24 warning /packages/1/identifier: image has no tag"},
		{`docker.io/example/weather:1.0.2`, `registry.example.com/weather:1`,
			"24 problem /packages/1/identifier: the official registry does not accept images of registry.example.com"},
		{`"registryType": "oci",`, `"registryType": "oci", "version": "1.0.2",`,
			"24 problem /packages/1/version: member must be absent"},
		{`"fileSha256": "`, `"x": "`, "27 problem /packages/2/fileSha256: required member is missing"},
		{`releases/download/v1/weather.mcpb`, `weather.mcpb`,
			"27 problem /packages/2/identifier: identifier must be the https URL of a file of a release"},
		{`v1/weather.mcpb`, `v1/weather.zip`, `27 problem /packages/2/identifier: URL must contain "mcp"`},
		// Arguments.
		{`"type": "positional", "value": "-y"`, `"type": "positional"`,
			"16 problem /packages/0/runtimeArguments/0: positional argument must have a value or a valueHint"},
		{`"name": "--port"`, `"name": ""`,
			"17 problem /packages/0/packageArguments/0/name: named argument must have a name"},
		{`"name": "--port"`, `"name": "--port <n>"`,
			"17 problem /packages/0/packageArguments/0/name: name of an argument must not have spaces"},
		{`"default": "80"`, `"default": "--port=80"`,
			"17 problem /packages/0/packageArguments/0/default: value must not begin with the name"},
		{`"isSecret": true`, `"isSecret": true, "default": "abc"`,
			"18 warning /packages/0/environmentVariables/0/default: secret is published"},
		// Transports.
		{`"type": "stdio"`, `"type": "stdio", "url": "https://example.com"`,
			"19 problem /packages/0/transport/url: the transport stdio has no URL"},
		{`{port_variable}`, `{port}`,
			"25 problem /packages/1/transport/url: variable {port} is not an argument or an environment variable"},
		{`"url": "http://127.0.0.1:{port_variable}/mcp"`, `"headers": []`,
			"25 problem /packages/1/transport/url: required member is missing"},
		{`https://{region}.`, `https://{zone}.`,
			"32 problem /remotes/0/url: variable {zone} is not a member of variables"},
		{`https://{region}.weather`, `http://{region}.weather`,
			"32 problem /remotes/0/url: URL of a remote server must begin with https://"},
		{`https://{region}.weather.example.com`, `https://localhost`,
			"32 problem /remotes/0/url: URL of a remote server must not be that of the local machine"},
		{`https://{region}.weather.example.com`, `ftp://x`,
			"32 problem /remotes/0/url: URL must begin with https:// or http://"},
		// Members.
		{`"identifier": "@`, `"registry_type": "npm", "identifier": "@`,
			"14 warning /packages/0/registry_type: member has no effect"},
		{`"version": "1.0.2",`, `"version": "1.0.2", "status": "active",`, "5 warning /status: member has no effect"},
		{`"publisher-note"`, `"` + strings.Repeat("x", 4096) + `"`,
			"36 problem /_meta/io.modelcontextprotocol.registry~1publisher-provided: value must have at most 4096 " +
				"bytes"},
		{`"_meta": {`, `"_meta": {"com.example/x": 1, `,
			"35 warning /_meta/com.example~1x: the official registry drops this member"},
		{`"packages"`, `"package"`, "11 warning /package: member has no effect"},
	} {
		if strings.Count(file, c.old) == 0 {
			t.Errorf("the file does not have %s", c.old)
		}
		got := check(t, strings.Replace(file, c.old, c.new, 1))
		if !slices.ContainsFunc(got, func(finding string) bool { return strings.HasPrefix(finding, c.want) }) {
			t.Errorf("%s instead of %s: findings %q, want %s", c.new, c.old, got, c.want)
		}
	}
}

func TestRangesAreNoVersions(t *testing.T) {
	for _, version := range []string{"^1.2.3", "~1.2", ">=1.0.0", "<2", "=1.0", ">= 1.0", "1.x", "1.2.*", "1.X",
		"1.2.x-beta", "1.0 - 2.0", "1.2 || 1.3"} {
		if !rangeForm.MatchString(version) {
			t.Errorf("%s is no range", version)
		}
	}
	for _, version := range []string{"1.2.3", "v1", "2025.11.03", "1.0.0-rc.1+x", "latest-ish", "1.2.3.4", "abc", "",
		"1.0-x", "^", "nightly.x"} {
		if rangeForm.MatchString(version) {
			t.Errorf("%s is a range", version)
		}
	}
}

func TestFindingsAreBounded(t *testing.T) {
	if _, err := Check(make([]byte, MaxFile+1)); err == nil {
		t.Error("a file of any size is read")
	}
	file := strings.Replace(valid(t), `"packages": [`, `"packages": [`+
		strings.Repeat(`{"registryType": "x y", "identifier": "a b", "transport": {"type": "stdio"}}, `, 200), 1)
	if findings, err := Check([]byte(file)); err != nil || len(findings) != maxFindings {
		t.Errorf("%d findings, %v", len(findings), err)
	}
}

func FuzzFilesAreChecked(f *testing.F) {
	f.Add([]byte(`{"$schema": 1, "packages": [{"identifier": "/", "registryType": "oci"}, 1, null], "remotes": {"a": ` +
		`[{}]}}`))
	f.Add([]byte(`{"packages": [{"registryType": "mcpb", "identifier": "https://gitlab.com/-/releases"}], ` +
		`"repository": {"url": "{", "source": "github"}}`))
	f.Add([]byte("[\n1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		findings, _ := Check(file)
		for _, finding := range findings {
			if finding.Line < 1 || finding.Line > strings.Count(string(file), "\n")+1 || finding.Text == "" {
				t.Errorf("%q: %+v", file, finding)
			}
		}
	})
}
