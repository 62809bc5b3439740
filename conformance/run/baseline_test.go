package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

const sample = `# comment
server-all:
  - ping            # transports
  - tools-list:format

client-2026-07-28:
  - auth/dpop
`

func TestBaselineKeepsItsEntriesByLeg(t *testing.T) {
	b := must.Get(parseBaseline(sample))(t)
	want := map[string][]entry{
		"server-all":        {{"ping", "", 2}, {"tools-list", "format", 3}},
		"client-2026-07-28": {{"auth/dpop", "", 6}},
	}
	must.CheckEqual(t, cmp.Diff(want, b.entries, cmp.AllowUnexported(entry{})), "", "entries (-want +got")
}

func TestBaselineRejectsInvalidLines(t *testing.T) {
	for text, want := range map[string]string{
		"  - ping\n": "line 1: entry must follow a leg",
		"server-all:\n  - ping\n  - ping # again\n": "line 3: duplicate entry",
		"server-all:\nserver-all:\n":                "line 2: duplicate leg",
		"server-some:\n":                            `line 1: unknown leg "server-some"`,
		"server-all:\n- ping\n":                     "line 2: line must be a leg",
		"server-all: [ping]\n":                      "line 1: line must be a leg",
	} {
		must.CheckFails(t, must.Err(parseBaseline(text)), want, text)
	}
}

func TestShrinkingKeepsAllOtherLines(t *testing.T) {
	b := must.Get(parseBaseline(sample))(t)
	got := b.without([]entry{b.entries["server-all"][0]})
	want := strings.Replace(sample, "  - ping            # transports\n", "", 1)
	must.CheckEqual(t, got, want)
}
