package registry

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

// serve returns a client of a registry that answers paths with bodies. The paths include the query.
func serve(t *testing.T, bodies map[string]string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, known := bodies[r.URL.RequestURI()]
		switch {
		case r.Header.Get("User-Agent") != "parley/1":
			t.Errorf("User-Agent %q", r.Header.Get("User-Agent"))
		case !known:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"title":"Not Found","status":404,"detail":"Server not found"}`))
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return &Client{URL: s.URL + "/", UserAgent: "parley/1"}
}

func TestSearchReadsPagesUpToTheLimit(t *testing.T) {
	page := func(names, cursor string) string {
		var servers []string
		for _, name := range strings.Fields(names) {
			servers = append(servers,
				fmt.Sprintf(`{"server": {"name": %q, "version": "1.0.0"}, "_meta": `+
					`{"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}}}`, name))
		}
		return fmt.Sprintf(`{"servers": [%s], "metadata": {"count": %d, "nextCursor": %q}}`, strings.Join(servers, ","),
			len(servers), cursor)
	}
	c := serve(t, map[string]string{
		"/v0.1/servers?limit=3&search=x+y&version=latest":                  page("a/1 a/2", "a/2:1"),
		"/v0.1/servers?cursor=a%2F2%3A1&limit=3&search=x+y&version=latest": page("a/3 a/4", ""),
		"/v0.1/servers?limit=50&search=x+y&version=latest":                 page("a/1", ""),
	})
	found, more, err := c.Search(t.Context(), "x y", 3)
	must.CheckThat(t, err == nil && len(found) == 3 && more && found[2].Server.Name == "a/3" &&
		found[0].Meta.Official.Status == "active", "%+v, %v, %v", found, more, err)
	found, more, err = c.Search(t.Context(), "x y", 100)
	must.CheckThat(t, err == nil && len(found) == 1 && !more, "%+v, %v, %v", found, more, err)
}

func TestGetReturnsTheServerThatWasAskedFor(t *testing.T) {
	c := serve(t, map[string]string{
		"/v0.1/servers/a%2Fb/versions/latest":      `{"server": {"name": "a/b", "version": "1.0.0"}}`,
		"/v0.1/servers/a%2Fb/versions/1+build":     `{"server": {"name": "a/b", "version": "1+build"}}`,
		"/v0.1/servers/a%2Fother/versions/latest":  `{"server": {"name": "a/b", "version": "1.0.0"}}`,
		"/v0.1/servers/a%2Fbroken/versions/latest": `{"server": `,
	})
	e := must.Get(c.Get(t.Context(), "a/b", "latest"))(t)
	must.CheckEqual(t, e.Server.Version, "1.0.0", e)
	must.CheckIs(t, must.Err(c.Get(t.Context(), "a/c", "latest")), ErrNotFound)
	must.CheckFails(t, must.Err(c.Get(t.Context(), "a/other", "latest")), `instead of "a/other"`)
	must.CheckFails(t, must.Err(c.Get(t.Context(), "a/broken", "latest")), "is invalid")
}

// Each package type becomes the command that its registry documents, without a shell and without the hints of the
// description.
func TestPackagesAndRemotesBecomeEntries(t *testing.T) {
	for _, c := range []struct{ name, server, want string }{
		{"npm",
			`{"packages": [{"registryType": "npm", "identifier": "@a/b", "version": "1.2.3", "runtimeHint": "evil", "transport": {"type": "stdio"},
			"runtimeArguments": [{"type": "named", "name": "--yes", "value": ""}], "packageArguments": [{"type": "positional", "value": "start"}, {"type": "positional", "valueHint": "directory", "isRequired": true},
			{"type": "named", "name": "--level", "default": "info"}, {"type": "named", "name": "--unused"}],
			"environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}, {"name": "REGION", "default": "eu"}, {"name": "OPTIONAL"}]}]}`,
			"npx -y @a/b@1.2.3 start <directory> --level=info KEY=<KEY> REGION=eu"},
		{"pypi",
			`{"packages": [{"registryType": "pypi", "identifier": "b", "version": "1", "transport": {"type": ` +
				`"stdio"}}]}`, "uvx b@1"},
		{"nuget",
			`{"packages": [{"registryType": "nuget", "identifier": "B", "version": "1", "transport": {"type": ` +
				`"stdio"}, "packageArguments": [{"type": "positional", "value": "mcp"}]}]}`, "dnx B@1 --yes -- mcp"},
		{"oci", `{"packages": [{"registryType": "oci", "identifier": "docker.io/a/b:1", "transport": {"type": "stdio"},
			"runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=bind,src={source},dst=/data", "variables": {"source": {"isRequired": true}}}],
			"environmentVariables": [{"name": "KEY", "isRequired": true}]}]}`,
			"docker run -i --rm -e KEY --mount=type=bind,src=<source>,dst=/data docker.io/a/b:1 KEY=<KEY>"},
		{"oci with secrets in its arguments", // as published entries have them
			`{"packages": [{"registryType": "oci", "identifier": "a/b", "version": "2", "transport": {"type": "stdio"},
			"runtimeArguments": [{"type": "named", "name": "-e", "value": "TOKEN={token}", "variables": {"token": {"isRequired": true, "isSecret": true}}},
			{"type": "positional", "value": "--env"}, {"type": "positional", "value": "KEY={key}", "variables": {"key": {"isRequired": true, "isSecret": true}}},
			{"type": "named", "name": "--env", "value": "LEVEL=info"}, {"type": "named", "name": "-e", "value": "DOCKER_HOST=a"},
			{"type": "named", "name": "-e", "value": "REGION=eu"}, {"type": "named", "name": "-e", "value": "NAMED"}],
			"environmentVariables": [{"name": "REGION", "value": "us"}]}]}`,
			"docker run -i --rm -e REGION -e TOKEN -e KEY -e LEVEL -e=DOCKER_HOST=a -e=REGION=eu -e=NAMED a/b:2 " +
				"REGION=us TOKEN=<token> KEY=<key> LEVEL=info"},
		{"oci with a version",
			`{"packages": [{"registryType": "oci", "identifier": "a/b", "version": "2", "transport": {"type": ` +
				`"stdio"}}]}`, "docker run -i --rm a/b:2"},
		{"npm of another registry",
			`{"packages": [{"registryType": "npm", "registryBaseUrl": "https://npm.example.com/", "identifier": "b", ` +
				`"version": "1", "transport": {"type": "stdio"}}]}`, "npx -y --registry=https://npm.example.com b@1"},
		{"nuget of another registry",
			`{"packages": [{"registryType": "nuget", "registryBaseUrl": "https://n.example.com/v3/index.json", ` +
				`"identifier": "B", "version": "1", "transport": {"type": "stdio"}}]}`,
			"dnx B@1 --yes --source=https://n.example.com/v3/index.json"},
		{"oci of another registry",
			`{"packages": [{"registryType": "oci", "registryBaseUrl": "https://ghcr.io", "identifier": "a/b", ` +
				`"version": "2", "transport": {"type": "stdio"}}]}`, "docker run -i --rm ghcr.io/a/b:2"},
		{"oci with its registry twice",
			`{"packages": [{"registryType": "oci", "registryBaseUrl": "https://ghcr.io", "identifier": ` +
				`"ghcr.io/a/b:2", "transport": {"type": "stdio"}}]}`, "docker run -i --rm ghcr.io/a/b:2"},
		{"remote",
			`{"remotes": [{"type": "streamable-http", "url": "https://{tenant}.example.com/{other}", "variables": {"tenant": {"isRequired": true}},
			"headers": [{"name": "Authorization", "value": "Bearer {key}", "variables": {"key": {"isRequired": true, "isSecret": true}}}, {"name": "X-Region", "default": "eu"}]}]}`,
			"https://<tenant>.example.com/{other} Authorization=Bearer <key> X-Region=eu"},
		{"reference",
			`{"packages": [{"registryType": "npm", "identifier": "b", "transport": {"type": "stdio"}, ` +
				`"environmentVariables": [{"name": "A", "value": "${HOME}${file:/etc/passwd}"}]}]}`,
			"npx -y b A=$ {HOME}$ {file:/etc/passwd}"},
	} {
		s := &Server{Name: "io.example/a", Version: "1.0.0"}
		must.Do(t, schema.Decode([]byte(c.server), s), c.name)
		usable, reasons := Choices(s)
		if len(usable) != 1 || len(reasons) > 0 {
			t.Errorf("%s: %v %v", c.name, usable, reasons)
			continue
		}
		entry, err := usable[0].Entry("x", nil, func(name string, _ Input) (string, error) { return "<" + name + ">", nil })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		words := append([]string{entry.Command, entry.URL}, entry.Args...)
		for _, p := range append(entry.Env, entry.Headers...) {
			words = append(words, p.Name+"="+p.Value)
		}
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		must.CheckEqual(t, strings.Join(words, " "), c.want, c.name)
	}
}

func TestWhatCannotBeAnEntryIsAnError(t *testing.T) {
	s := &Server{Packages: []Package{
		{RegistryType: "mcpb", Identifier: "https://example.com/a.mcpb", Transport: Transport{Type: "stdio"}},
		{RegistryType: "npm", Identifier: "a", Transport: Transport{Type: "streamable-http", URL: "http://127.0.0.1"}},
	}}
	usable, reasons := Choices(s)
	must.CheckThat(t, len(usable) == 0 && len(reasons) == 2, "%v %v", usable, reasons)
	decline := func(string, Input) (string, error) { return "", errors.New("declined") }
	for _, c := range []struct {
		server Server
		want   string
	}{
		{Server{Packages: []Package{{RegistryType: "npm", Identifier: "--flag", Transport: Transport{Type: "stdio"}}}},
			"invalid name or version"},
		{Server{Packages: []Package{{RegistryType: "npm", Identifier: "a b", Transport: Transport{Type: "stdio"}}}},
			"invalid name or version"},
		{Server{Packages: []Package{{RegistryType: "pypi", RegistryBaseURL: "https://pypi.example.com", Identifier: "a",
			Transport: Transport{Type: "stdio"}}}}, "must be installed by hand"},
		{Server{Packages: []Package{{RegistryType: "npm", RegistryBaseURL: "http://npm.example.com", Identifier: "a",
			Transport: Transport{Type: "stdio"}}}}, "invalid registry"},
		{Server{Packages: []Package{{RegistryType: "oci", RegistryBaseURL: "https://ghcr.io",
			Identifier: "docker.io/a/b", Transport: Transport{Type: "stdio"}}}}, "invalid registry"},
		{Server{Packages: []Package{{RegistryType: "npm", Transport: Transport{Type: "stdio"}}}}, "no identifier"},
		{Server{Remotes: []Transport{{URL: "file:///etc/passwd"}}}, "must begin with https:// or http://"},
		{Server{Remotes: []Transport{{URL: "https://{a}/", Variables: map[string]Input{"a": {}}}}}, "declined"},
	} {
		usable, _ := Choices(&c.server)
		must.CheckFails(t, must.Err(usable[0].Entry("x", nil, decline)), c.want, c.server)
	}
}

// The programs that start packages accept files, URLs, other registries and other packages. A description can name none
// of them: the user sees the name of a package of a registry, and that is what runs.
func TestDescriptionsCannotNameAnythingButAPackage(t *testing.T) {
	entry := func(p Package) error {
		p.Transport.Type = "stdio"
		usable, _ := Choices(&Server{Packages: []Package{p}})
		_, err := usable[0].Entry("x", nil, func(string, Input) (string, error) { return "value", nil })
		return err
	}
	for kind, names := range map[string][]string{
		"npm": {
			"https://example.com/a.tgz", "./a", "../a", "/a", "~/a", "a/b", "github:a/b", "git+https://example.com/a",
			"file:a", "npm:a", "a.tgz", "@a/b/c", "a@b", "@a", "a@npm:b",
		},
		"pypi": {"https://example.com/a.whl", "./a", "/a", "git+https://example.com/a", "a.whl", "a[b]",
			"a@https://example.com/", "a b"},
		"nuget": {"./a", "/a", "a.nupkg", "a/b", "https://example.com"},
		"oci":   {"https://example.com/a", "./a", "/a", "A/b", "a/../b", "a b"},
	} {
		for _, name := range names {
			must.CheckFails(t, entry(Package{RegistryType: kind, Identifier: name}), "invalid name or version", kind,
				name)
		}
		for _, version := range []string{"npm:b@1", "file:b", "https://example.com/", "1 --registry", "-1", "1/2",
			">=1"} {
			must.CheckFails(t, entry(Package{RegistryType: kind, Identifier: "a", Version: version}),
				"invalid name or version", kind, version)
		}
	}
	argument := func(words ...string) (all []Argument) {
		for _, w := range words {
			all = append(all, Argument{Type: "positional", Input: Input{Value: w}})
		}
		return all
	}
	for kind, lines := range map[string][][]string{
		"npm": {{"--registry=https://example.com"}, {"-p", "b"}, {"--package=b"}, {"-c", "sh"}, {"b"},
			{"--prefix", "/"}, {"-y", "b"}},
		"pypi": {{"--from", "b"}, {"--with=b"}, {"--index-url", "https://example.com"},
			{"--default-index=https://example.com"}, {"b"}, {"-p", "3.12", "b"}, {"--python", "-p"}},
		"nuget": {{"--source", "https://example.com"}, {"--configfile=a"}, {"b"}},
		"oci": {{"b"}, {"-v", "/a:/a", "b"}, {"--entrypoint=sh"}, {"--privileged"}, {"-e", "--privileged"},
			{"-H=tcp://example.com"}},
	} {
		for _, words := range lines {
			must.CheckFails(t, entry(Package{RegistryType: kind, Identifier: "a",
				RuntimeArguments: argument(words...)}), "could change what is run", kind, words)
		}
		for _, name := range []string{"NPM_CONFIG_REGISTRY", "npm_config_registry", "UV_INDEX_URL", "PATH",
			"NODE_OPTIONS", "DOCKER_HOST", "LD_PRELOAD", "HTTPS_PROXY", "A B"} {
			variable := KeyValue{Name: name, Input: Input{Value: "x"}}
			must.CheckFails(t, entry(Package{RegistryType: kind, Identifier: "a",
				EnvironmentVariables: []KeyValue{variable}}), "could change what is run", kind, name)
		}
	}
	for kind, words := range map[string][]string{"npm": {"-y", "--quiet"}, "pypi": {"-p", "3.12", "--python=3.13"},
		"oci": {"-v", "/a:/b", "--mount=type=tmpfs", "--network", "none", "--init"}} {
		must.Check(t, entry(Package{RegistryType: kind, Identifier: "a", RuntimeArguments: argument(words...)}), kind,
			words)
	}
}

// The user can set each value of the description that is not fixed, whether parley would ask for it or not.
func TestValuesThatAreSetAreUsedOrRejected(t *testing.T) {
	s := &Server{}
	must.Do(t, schema.Decode([]byte(`{"packages": [{"registryType": "npm", "identifier": "b", "transport": {"type": "stdio"},
		"packageArguments": [{"type": "named", "name": "--level", "default": "info"}, {"type": "named", "name": "--unused"},
			{"type": "positional", "valueHint": "directory"}, {"type": "positional", "value": "in-{city}", "variables": {"city": {"default": "rome"}}}],
		"environmentVariables": [{"name": "REGION", "default": "eu"}, {"name": "OPTIONAL"}, {"name": "FIXED", "value": "yes"}]}]}`), s))
	usable, _ := Choices(s)
	for _, c := range []struct {
		set       []string
		want, err string
	}{
		{nil, "-y b --level=info in-rome REGION=eu FIXED=yes", ""},
		{[]string{"--level"}, "-y b --level=<--level> in-rome REGION=eu FIXED=yes", ""},
		{[]string{"--unused", "directory", "city", "REGION", "OPTIONAL"},
			"-y b --level=info --unused=<--unused> <directory> in-<city> REGION=<REGION> OPTIONAL=<OPTIONAL> FIXED=yes", ""},
		{[]string{"REGIONS"}, "", `unknown value "REGIONS"; did you mean REGION?`},
		{[]string{"FIXED"}, "", `unknown value "FIXED"; set only values that the server asks for; they are --level, ` +
			`--unused, OPTIONAL, REGION, city, directory`},
	} {
		entry, err := usable[0].Entry("x", c.set, func(name string, _ Input) (string, error) {
			must.CheckThat(t, slices.Contains(c.set, name), "asks for %s", name)
			return "<" + name + ">", nil
		})
		if c.err != "" {
			must.CheckEqual(t, fmt.Sprint(err), c.err)
			continue
		}
		must.Do(t, err)
		words := entry.Args
		for _, p := range entry.Env {
			words = append(words, p.Name+"="+p.Value)
		}
		must.CheckEqual(t, strings.Join(words, " "), c.want, c.set)
	}
}
