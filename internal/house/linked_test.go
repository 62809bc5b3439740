package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	joseModule   = "github.com/go-jose/go-jose/v4"
	textModule   = "golang.org/x/text"
	schemaModule = "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxClientModules is the number of modules, this one included, that a program may link
// that only dials servers.
const maxClientModules = 4

func TestClientProgramLinksFewModules(t *testing.T) {
	modules := linkedModules(t, "./examples/call")
	if len(modules) > maxClientModules {
		t.Errorf("a client program links too many modules: %d, the limit is %d: %q", len(modules), maxClientModules,
			modules)
	}
	if slices.Contains(modules, joseModule) {
		t.Errorf("a client program links %s", joseModule)
	}
	if slices.Contains(modules, textModule) {
		t.Errorf("a client program links %s", textModule)
	}
}

// Package schema validates by itself. Another library checks it in tests.
func TestNoProgramLinksAnotherSchemaLibrary(t *testing.T) {
	for _, pattern := range []string{"./schema", "./server", "./client", "./gateway", "./examples/...", "./bench"} {
		if modules := linkedModules(t, pattern); slices.Contains(modules, schemaModule) {
			t.Errorf("%s links %s", pattern, schemaModule)
		}
	}
}

// A server with a Verifier of its own, or with token introspection, needs no JOSE.
func TestOnlyVerifiersOfJSONWebTokensLinkJOSE(t *testing.T) {
	for pattern, want := range map[string]bool{
		"./server": false, "./auth": false, "./auth/introspection": false, "./host": false, "./gateway": false,
		"./examples/hellohttp": false,
		"./auth/jwt":           true, "./auth/oauth": true,
	} {
		if modules := linkedModules(t, pattern); slices.Contains(modules, joseModule) != want {
			t.Errorf("%s links %q, want %s: %v", pattern, modules, joseModule, want)
		}
	}
}

// A program that only dials servers links nothing of the server, and a program that only serves links nothing of the
// client. What both need is below them.
func TestClientsAndServersLinkTheirOwnHalf(t *testing.T) {
	for pattern, foreign := range map[string][]string{
		"./client": {"server", "internal/serve", "internal/seal", "internal/lease", "internal/tasks"},
		"./server": {"client", "internal/dial"},
	} {
		for _, linked := range goList(t, "{{.ImportPath}}", pattern) {
			dir, _ := strings.CutPrefix(linked, module+"/")
			for _, f := range foreign {
				if dir == f || strings.HasPrefix(dir, f+"/") {
					t.Errorf("%s links %s", pattern, dir)
				}
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
	if !slices.Contains(modules, module) {
		t.Fatalf("go list %s lists %q, without %s", pattern, modules, module)
	}
	return modules
}

// goList returns what a template of go list prints for a package and its dependencies.
func goList(t *testing.T, template, pattern string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", template, pattern)
	list.Dir = "../.."
	output, err := list.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	return strings.Fields(string(output))
}
