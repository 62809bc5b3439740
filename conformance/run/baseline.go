package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// baseline lists the scenarios ("tools-list") and single checks ("tools-list:tools-name-format") that are known not to
// pass, per leg. Its file is a subset of YAML:
//
//	client-all:          # a leg
//	  - auth/dpop        # an entry, with its reason
type baseline struct {
	lines   []string
	entries map[string][]entry // by leg
}

// entry is one line of the file. check is empty in an entry for the whole scenario.
type entry struct {
	scenario, check string
	line            int // starts at 0
}

func (e entry) String() string {
	if e.check == "" {
		return e.scenario
	}
	return e.scenario + ":" + e.check
}

func readBaseline(file string) (*baseline, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b, err := parseBaseline(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

func parseBaseline(text string) (*baseline, error) {
	b := &baseline{lines: slices.Collect(strings.Lines(text)), entries: map[string][]entry{}}
	var current string
	seen := map[string]bool{}
	for i, line := range b.lines {
		content, _, _ := strings.Cut(line, "#")
		content = strings.TrimRight(content, " \r\n")
		fail := func(problem string) (*baseline, error) {
			return nil, fmt.Errorf("line %d: %s: %q", i+1, problem, content)
		}
		if content == "" {
			continue
		}
		if item, ok := strings.CutPrefix(content, "  - "); ok {
			if current == "" {
				return fail("entry must follow a leg")
			}
			e := entry{line: i}
			e.scenario, e.check, _ = strings.Cut(item, ":")
			if seen[current+" "+item] {
				return fail("duplicate entry")
			}
			seen[current+" "+item] = true
			b.entries[current] = append(b.entries[current], e)
			continue
		}
		name, ok := strings.CutSuffix(content, ":")
		if !ok {
			return fail("line must be a leg (\"server-all:\") or an entry (\"  - tools-list\")")
		}
		l, err := parseLeg(name)
		if err != nil {
			return fail(err.Error())
		}
		if _, ok := b.entries[l.String()]; ok {
			return fail("duplicate leg")
		}
		current = l.String()
		b.entries[current] = nil
	}
	return b, nil
}

// without returns the text of the file without the lines of some entries. It keeps all other lines.
func (b *baseline) without(stale []entry) string {
	var text strings.Builder
	for i, line := range b.lines {
		if !slices.ContainsFunc(stale, func(e entry) bool { return e.line == i }) {
			text.WriteString(line)
		}
	}
	return text.String()
}

// shrink removes the stale entries from the file and from the reports.
func (b *baseline) shrink(file string, reports []legReport) error {
	var stale []entry
	for i := range reports {
		stale = append(stale, reports[i].stale...)
		reports[i].stale = nil
	}
	return os.WriteFile(file, []byte(b.without(stale)), 0o644)
}
