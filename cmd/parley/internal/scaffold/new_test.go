package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// newProject runs the command without Go in an empty folder, and returns what it prints.
func newProject(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	cmd := NewNew()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	var out strings.Builder
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

// checkout makes a folder that has the go.mod of a module.
func checkout(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+module+"\n\ngo 1.26.0\n"), 0o600))
	return dir
}

func TestAProjectHasTheNameOfItsFolder(t *testing.T) {
	for kind, want := range map[string][]string{
		"server":  {"Dockerfile", ".mcp.json", filepath.Join(".vscode", "mcp.json"), "main.go", "main_test.go"},
		"client":  {"main.go", "main_test.go", ".gitignore", filepath.Join(".github", "workflows", "test.yaml")},
		"gateway": {"Dockerfile", ".mcp.json", "main.go", "main_test.go"},
	} {
		dir := filepath.Join(t.TempDir(), "tools")
		out := must.Get(newProject(t, kind, dir, "--checkout", checkout(t, library)))(t)
		for _, text := range []string{"Created a " + kind, "    cd ", "go mod tidy", "go test ./..."} {
			must.CheckContains(t, out, text)
		}
		for _, file := range want {
			text := string(must.Get(os.ReadFile(filepath.Join(dir, file)))(t))
			must.CheckThat(t, !strings.Contains(text, placeholder),
				"%s of a %s has the name %s", file, kind, placeholder)
			must.CheckThat(t, !slices.Contains([]string{"Dockerfile", ".mcp.json", "main.go"}, file) ||
				strings.Contains(text, "tools"), "%s of a %s does not have the name of the project", file, kind)
		}
		text := string(must.Get(os.ReadFile(filepath.Join(dir, "go.mod")))(t))
		must.CheckContains(t, text, "module tools\n")
		must.CheckContains(t, text, "\nreplace "+library+" => ")
	}
}

func TestTheModuleHasItsOwnPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tools")
	must.Get(newProject(t, "client", dir, "--checkout", checkout(t, library), "--module", "example.com/tools"))(t)
	must.CheckContains(t, string(must.Get(os.ReadFile(filepath.Join(dir, "go.mod")))(t)), "module example.com/tools\n")
}

func TestProjectsThatCannotBeCreated(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	must.Do(t, os.Mkdir(full, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(full, "notes.txt"), nil, 0o600))
	dir := filepath.Join(t.TempDir(), "tools")
	parley := checkout(t, library)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name the kind of project and a folder"},
		{[]string{"daemon", dir}, `unknown kind of project "daemon"`},
		{[]string{"server", filepath.Join(dir, "My Tools")}, `"My Tools" must have a name of lower-case letters`},
		{[]string{"server", dir}, "set --checkout to the folder of the checkout"}, // tests have no version
		{[]string{"server", dir, "--checkout", checkout(t, "example.com/other")}, "not a checkout of Parley"},
		{[]string{"server", full, "--checkout", parley}, "is not empty; name a new folder"},
	} {
		must.CheckFails(t, must.Err(newProject(t, c.args...)), c.want, c.args)
	}
	_, err := os.Stat(dir)
	must.CheckThat(t, err != nil, "a project that could not be created has a folder")
}
