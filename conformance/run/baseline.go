package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// A baseline lists what is known not to pass: per leg, scenarios ("tools-list") and single checks of a scenario
// ("tools-list:tools-name-format"). Its file is the part of YAML that this needs:
//
//	client-all:          # a leg
//	  - auth/dpop        # an entry, and why it is there
type baseline struct {
	lines   []string
	entries map[string][]entry // by leg
}

// An entry is one line of the file. check is empty when the entry is for the whole scenario.
type entry struct {
	scenario, check string
	line            int // from 0
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
				return fail("an entry above every leg")
			}
			e := entry{line: i}
			e.scenario, e.check, _ = strings.Cut(item, ":")
			if seen[current+" "+item] {
				return fail("an entry given twice")
			}
			seen[current+" "+item] = true
			b.entries[current] = append(b.entries[current], e)
			continue
		}
		name, ok := strings.CutSuffix(content, ":")
		if !ok {
			return fail("neither a leg (\"server-all:\") nor an entry (\"  - tools-list\")")
		}
		l, err := parseLeg(name)
		if err != nil {
			return fail(err.Error())
		}
		if _, ok := b.entries[l.String()]; ok {
			return fail("a leg given twice")
		}
		current = l.String()
		b.entries[current] = nil
	}
	return b, nil
}

// without gives the file's text without the lines of these entries; all else, comments too, stays.
func (b *baseline) without(stale []entry) string {
	var text strings.Builder
	for i, line := range b.lines {
		if !slices.ContainsFunc(stale, func(e entry) bool { return e.line == i }) {
			text.WriteString(line)
		}
	}
	return text.String()
}

// shrink takes the stale entries out of the file, and out of judged.
func (b *baseline) shrink(file string, judged []judgement) error {
	var stale []entry
	for i := range judged {
		stale = append(stale, judged[i].stale...)
		judged[i].stale = nil
	}
	return os.WriteFile(file, []byte(b.without(stale)), 0o644)
}
