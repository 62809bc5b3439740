package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

func TestVerdicts(t *testing.T) {
	ok := check{ID: "a", Status: "SUCCESS"}
	schema := check{ID: "wire-schema-valid", Status: "SUCCESS"}
	failure := check{ID: "b", Status: "FAILURE", ErrorMessage: "wrong"}
	warning := check{ID: "c", Status: "WARNING", Description: "odd"}
	skipped := check{ID: "d", Status: "SKIPPED"}
	crash := errors.New("panic: failed")

	for _, tt := range []struct {
		name     string
		checks   []check
		crash    error
		entries  string // of the baseline, separated by spaces
		verdict  verdict
		problems string
		stale    string
	}{
		{name: "success", checks: []check{ok, skipped}},
		{name: "failure", checks: []check{ok, failure}, verdict: failed, problems: "FAILURE b: wrong"},
		{name: "warning", checks: []check{ok, warning}, verdict: failed, problems: "WARNING c: odd"},
		{name: "crash after success", checks: []check{ok}, crash: crash, verdict: failed, problems: "panic: failed"},
		{name: "no result", verdict: failed, problems: "the suite left no result"},
		{name: "only skips", checks: []check{skipped}, verdict: failed, problems: "the suite left no result"},
		{name: "only skips and the schema", checks: []check{skipped, schema}, verdict: failed,
			problems: "the suite left no result"},

		{name: "listed failure", checks: []check{failure}, entries: "s", verdict: known, problems: "FAILURE b: wrong"},
		{name: "listed crash", crash: crash, entries: "s", verdict: known, problems: "panic: failed"},
		{name: "listed success", checks: []check{ok}, entries: "s", stale: "s"},
		{name: "other scenario listed", checks: []check{failure}, entries: "other", verdict: failed,
			problems: "FAILURE b: wrong", stale: "other"},

		{name: "listed check", checks: []check{ok, warning}, entries: "s:c", verdict: known,
			problems: "WARNING c: odd"},
		{name: "one of two checks listed", checks: []check{failure, warning}, entries: "s:c", verdict: failed,
			problems: "FAILURE b: wrong"},
		{name: "listed check that passes", checks: []check{ok}, entries: "s:a", stale: "s:a"},
		{name: "check and its scenario listed", checks: []check{failure}, entries: "s s:b", verdict: known,
			problems: "FAILURE b: wrong", stale: "s:b"},
		{name: "listed check and a crash", checks: []check{warning}, crash: crash, entries: "s:c", verdict: failed,
			problems: "panic: failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var entries []entry
			for i, item := range strings.Fields(tt.entries) {
				scenario, id, _ := strings.Cut(item, ":")
				entries = append(entries, entry{scenario, id, i})
			}
			j := evaluate(allLegs[0], []outcome{{scenario: "s", checks: tt.checks, crash: tt.crash}}, entries,
				time.Second)
			var stale []string
			for _, e := range j.stale {
				stale = append(stale, e.String())
			}
			must.CheckEqual(t, j.results[0].verdict, tt.verdict)
			must.CheckEqual(t, strings.Join(j.results[0].problems, "; "), tt.problems)
			must.CheckEqual(t, strings.Join(stale, " "), tt.stale)

			var out strings.Builder
			must.CheckEqual(t, report(&out, []legReport{j}), tt.verdict != failed && tt.stale == "", out.String())
		})
	}
}

func TestReportNamesFailuresAndTheirDirectories(t *testing.T) {
	j := evaluate(allLegs[0], []outcome{
		{scenario: "ping", checks: []check{{ID: "a", Status: "SUCCESS"}}},
		{scenario: "tools-list", dir: "logs/tools-list",
			checks: []check{{ID: "b", Status: "FAILURE", ErrorMessage: "two\nlines"}, {ID: "c", Status: "SKIPPED"}}},
	}, []entry{{scenario: "gone"}}, 1500*time.Millisecond)
	var out strings.Builder
	report(&out, []legReport{j})
	want := `
FAILED server-all tools-list
    FAILURE b: two
    lines
    see logs/tools-list

STALE server-all gone
    passes, or this leg has no such scenario: remove it from the baseline, for example with -shrink

         leg  scenarios  passed  baseline  failed  stale entries  skipped checks  time
  server-all          2       1         0       1              1               1  1.5s
`
	must.CheckEqual(t, out.String(), want)
}

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
