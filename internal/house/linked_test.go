package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

const (
	joseModule   = "github.com/go-jose/go-jose/v4"
	textModule   = "golang.org/x/text"
	schemaModule = "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxClientModules is how many modules, including this one, a program may link if it
// only dials servers.
const maxClientModules = 4

func TestClientProgramLinksFewModules(t *testing.T) {
	modules := linkedModules(t, "./examples/call")
	must.CheckThat(t, len(modules) <= maxClientModules,
		"a client program links too many modules: %d, the limit is %d: %q", len(modules), maxClientModules, modules)
	must.CheckThat(t, !slices.Contains(modules, joseModule), "a client program links %s", joseModule)
	must.CheckThat(t, !slices.Contains(modules, textModule), "a client program links %s", textModule)
}

// Package schema validates by itself. Another library checks it in tests.
func TestNoProgramLinksAnotherSchemaLibrary(t *testing.T) {
	for _, pattern := range []string{"./schema", "./server", "./client", "./gateway", "./examples/...", "./bench"} {
		modules := linkedModules(t, pattern)
		must.CheckThat(t, !slices.Contains(modules, schemaModule), "%s links %s", pattern, schemaModule)
	}
}

// A server with its own Verifier, or with token introspection, needs no JOSE.
func TestOnlyVerifiersOfJSONWebTokensLinkJOSE(t *testing.T) {
	for pattern, want := range map[string]bool{
		"./server": false, "./auth": false, "./auth/introspection": false, "./host": false, "./gateway": false,
		"./examples/hellohttp": false,
		"./auth/jwt":           true, "./auth/oauth": true,
	} {
		modules := linkedModules(t, pattern)
		must.CheckEqual(t, slices.Contains(modules, joseModule), want, pattern, modules, joseModule)
	}
}

// A program that only dials servers links nothing of the server, and a program that only serves links nothing of the
// client. What both need is in a lower layer.
func TestClientsAndServersLinkTheirOwnHalf(t *testing.T) {
	for pattern, foreign := range map[string][]string{
		"./client": {"server", "internal/serve", "internal/seal", "internal/lease", "internal/tasks"},
		"./server": {"client", "internal/dial"},
	} {
		for _, linked := range goList(t, "{{.ImportPath}}", pattern) {
			dir, _ := strings.CutPrefix(linked, module+"/")
			for _, f := range foreign {
				must.CheckThat(t, dir != f && !strings.HasPrefix(dir, f+"/"), "%s links %s", pattern, dir)
			}
		}
	}
}

// linkedModules returns the paths of the modules that a package of this module links.
func linkedModules(t *testing.T, pattern string) []string {
	t.Helper()
	modules := goList(t, "{{with .Module}}{{.Path}}{{end}}", pattern)
	slices.Sort(modules)
	modules = slices.Compact(modules)
	must.That(t, slices.Contains(modules, module), "go list %s lists %q, without %s", pattern, modules, module)
	return modules
}

// goList returns what a template of go list prints for a package and its dependencies.
func goList(t *testing.T, template, pattern string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", template, pattern)
	list.Dir = "../.."
	output, err := list.Output()
	must.Do(t, err, "go list", pattern)
	return strings.Fields(string(output))
}
