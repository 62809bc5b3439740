package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// usersOfTheAPI lists what the public packages are for: pages, examples, the gateway, the program, and the modules and
// packages that build on the public API.
var usersOfTheAPI = []string{"README.md", "docs/", "examples/", "gateway/", "cmd/parley/", "otel/", "sampler/",
	"store/redisstore/", "skills/", "apps/", "conformance/", "interop/"}

// unused lists exported names without a user, and why they are exported.
var unused = map[string]string{
	"jsonrpc.Invalid":                   "the zero value of Kind",
	"schema.CheckType":                  "server checks types at the start",
	"schema.ForType":                    "For, for packages that have only a reflect.Type",
	"schema.MarshalArguments":           "client encodes arguments",
	"server.NotSecret":                  "an error names it as the remedy",
	"transport.DefaultClientMaxMessage": "documents the limit",
	"transport.DefaultServerMaxMessage": "documents the limit",
	"transport.PipeLimits":              "Pipe with the limits of a test",
	"host.KindElicitation":              "a value of its type",
	"host.KindExtension":                "a value of its type",
	"host.KindRoots":                    "a value of its type",
	"host.KindSampling":                 "a value of its type",
}

// Every exported name of a package is used: a user mentions it, or the declaration of another used name does. Package
// mcp is the vocabulary of the protocol, which other tests compare with the official schemas, and an error is for
// programs that we have not seen.
func TestExportedNamesHaveUsers(t *testing.T) {
	root := filepath.Join("..", "..")
	named := make(map[string]bool) // such as server.AddTool
	reference := regexp.MustCompile(`\b[a-z]\w*\.[A-Z]\w*`)
	for _, pattern := range usersOfTheAPI {
		must.Do(t, filepath.WalkDir(filepath.Join(root, pattern), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range reference.FindAllString(string(text), -1) {
				named[name] = true
			}
			return err
		}))
	}
	for _, f := range project(t) {
		if base := filepath.Base(f.path); strings.HasPrefix(base, "example") && strings.HasSuffix(base, "_test.go") {
			text := must.Get(os.ReadFile(filepath.Join(root, f.path)))(t)
			for _, name := range reference.FindAllString(string(text), -1) {
				named[name] = true
			}
		}
	}
	declared := declarations(must.Get(readAPIs(os.DirFS(root)))(t))
	word := regexp.MustCompile(`(?:\b[a-z]\w*\.)?\b[A-Z]\w*`)
	var use func(pkg, name string)
	used := make(map[string]bool)
	use = func(pkg, name string) {
		full := pkg + "." + name
		if used[full] || declared[full] == nil {
			return
		}
		used[full] = true
		for _, line := range declared[full] {
			for _, other := range word.FindAllString(line, -1) {
				if of, name, found := strings.Cut(other, "."); found {
					use(of, name)
				} else {
					use(pkg, other)
				}
			}
		}
	}
	for full := range declared {
		if pkg, name, _ := strings.Cut(full, "."); named[full] || unused[full] != "" {
			use(pkg, name)
		}
	}
	for full := range declared {
		pkg, name, _ := strings.Cut(full, ".")
		if !used[full] && pkg != "mcp" && !strings.HasPrefix(name, "Err") && !strings.HasSuffix(name, "Error") {
			t.Errorf("%s has no user among pages, examples, the gateway and the program: remove it", full)
		}
	}
	for full := range unused {
		must.CheckThat(t, !named[full] && declared[full] != nil,
			"%s is used, or does not exist: remove it from the table", full)
	}
}

// declarations returns the lines of the record for each name, such as server.AddTool, including its methods and
// fields.
func declarations(apis []api) map[string][]string {
	name := regexp.MustCompile(`^(?:func|type|const|var|method) \(?\*?(\w+)`)
	lines := make(map[string][]string)
	for _, a := range apis {
		if a.dir == "docs/program" {
			continue
		}
		for _, line := range a.lines {
			if m := name.FindStringSubmatch(line); m != nil {
				full := filepath.Base(a.dir) + "." + m[1]
				lines[full] = append(lines[full], line)
			}
		}
	}
	return lines
}
