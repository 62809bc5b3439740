package program

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	must.CheckEqual(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func TestPagesBecomePlainText(t *testing.T) {
	const page = "# Rules\n\n" +
		"A rule decides **first**. See [policy.md](policy.md#rules), [the reference](appendix-policy.md), " +
		"[RE2](https://example.com/re2)\nand [below](#more).\n\n" +
		"```json\n{ \"a long line of code that is not divided\": [1, 2] }\n```\n\n" +
		"    parley up     # indented\n\n" +
		"- first item, which continues\n  on the next line\n- second\n\n" +
		"## More\n\n" +
		"| member | meaning |\n|---|---|\n| `a` | the first of two words \\| more |\n| `long-name` | |\n\n" +
		"1. one\n2. two\n"
	const want = "Rules\n=====\n\n" +
		"A rule decides first. See `parley help\n" +
		"policy`, the reference (`parley help\n" +
		"appendix-policy`), RE2\n" +
		"(https://example.com/re2) and below.\n\n" +
		"    { \"a long line of code that is not divided\": [1, 2] }\n\n" +
		"    parley up     # indented\n\n" +
		"- first item, which continues on the\n  next line\n- second\n\n" +
		"More\n----\n\n" +
		"member       meaning\n" +
		"`a`          the first of two words |\n             more\n" + "`long-name`\n\n" + "1. one\n2. two\n"
	must.CheckEqual(t, cmp.Diff(want, ManualText(page, 40)), "", "- want, +")
}
