package program

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/internal/must"
)

func TestLinesForTheUserAreLogRecords(t *testing.T) {
	var log strings.Builder
	cmd := new(cobra.Command)
	cmd.SetErr(&log)
	must.Do(t, (&LogFlag{Format: "json"}).Apply(cmd))
	cmd.PrintErr("parley: warning: a \x1b[31mred\nlight\n\nparley: one")
	cmd.PrintErr(" line\nhalf")
	NewLogger(cmd.ErrOrStderr(), 8).Info("a record", "n", 1)
	var got []string
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(line, `,`)
		got = append(got, strings.TrimSpace(rest))
	}
	want := []string{`"level":"WARN","msg":"a \u001b[31mred"}`, `"level":"INFO","msg":"light"}`,
		`"level":"INFO","msg":"one line"}`, `"level":"INFO","msg":"a record","n":1}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
