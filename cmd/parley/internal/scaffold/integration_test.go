//go:build integration

package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// TestProjectsPassTheirTests creates each kind of project outside the workspace, and runs its tests as a user would.
func TestProjectsPassTheirTests(t *testing.T) {
	checkout := must.Get(filepath.Abs("../../../.."))(t)
	t.Setenv("GOWORK", "off")
	for _, kind := range kindNames() {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), kind)
			cmd := NewNew()
			cmd.SetArgs([]string{kind, dir, "--checkout", checkout})
			cmd.SetOut(t.Output())
			must.Do(t, cmd.Execute())
			for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
				run := exec.CommandContext(t.Context(), "go", args...)
				run.Dir = dir
				run.Env = append(os.Environ(), "GOFLAGS=-trimpath")
				text, err := run.CombinedOutput()
				must.CheckThat(t, err == nil, "go %v: %v\n%s", args, err, text)
			}
		})
	}
}
