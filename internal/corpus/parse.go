package corpus

import (
	"fmt"
	"slices"
	"strings"
)

// block is one case as written, which may stand for several cases.
type block struct {
	Case
	input    []string
	values   []string
	prefixes bool
}

// parse reads the text of a file.
func parse(file, text string) ([]Case, error) {
	var cases []Case
	names := make(map[string]bool)
	var b *block
	finish := func() error {
		if b == nil {
			return nil
		}
		made, err := b.cases()
		for _, c := range made {
			if names[c.Name] {
				return fmt.Errorf("%s: the name %q must be unique", c.Place, c.Name)
			}
			names[c.Name] = true
		}
		cases = append(cases, made...)
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		place := fmt.Sprintf("%s.txt:%d", file, i+1)
		if name, found := strings.CutPrefix(line, "== "); found {
			if err := finish(); err != nil {
				return nil, err
			}
			b = &block{Case: Case{Name: name, Place: place}}
			continue
		}
		if b == nil {
			if line != "" && !strings.HasPrefix(line, "#") {
				return nil, fmt.Errorf("%s: line must belong to a case: %.40q", place, line)
			}
			continue
		}
		if err := b.add(line); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	err := finish()
	return cases, err
}

// add reads one line after the name.
func (b *block) add(line string) error {
	switch {
	case strings.HasPrefix(line, "v: "):
		b.values = append(b.values, line[3:])
	case line == "v:":
		b.values = append(b.values, "")
	case line == "prefixes":
		b.prefixes = true
	case strings.HasPrefix(line, "=> "):
		o, err := parseOutcome(line[3:])
		b.outcomes = append(b.outcomes, o)
		return err
	case len(b.outcomes) > 0: // between two cases
		if line != "" && !strings.HasPrefix(line, "#") {
			return fmt.Errorf("line after an outcome must be empty or a comment: %.40q", line)
		}
	case len(b.values) > 0 || b.prefixes:
		return fmt.Errorf("input must precede values: %.40q", line)
	default:
		b.input = append(b.input, line)
	}
	return nil
}

// parseOutcome reads "outcome" or "condition: outcome". A condition consists of tags only.
func parseOutcome(text string) (outcome, error) {
	if condition, rest, found := strings.Cut(text, ": "); found {
		words := strings.Fields(condition)
		unknown := slices.IndexFunc(words, func(word string) bool { return !slices.Contains(tags, word) })
		if unknown < 0 {
			return outcome{words, rest}, nil
		}
		return outcome{}, fmt.Errorf("%q in a condition must be one of %q", words[unknown], tags)
	}
	if text == "" {
		return outcome{}, fmt.Errorf("outcome is empty")
	}
	return outcome{text: text}, nil
}

// cases returns the cases of the block: one, or one per value or per prefix.
func (b *block) cases() ([]Case, error) {
	if len(b.outcomes) == 0 {
		return nil, fmt.Errorf("%s: case must have an outcome", b.Place)
	}
	b.Input = strings.Join(b.input, "\n")
	var cases []Case
	switch {
	case b.prefixes:
		for n := 1; n < len(b.Input); n++ {
			c := b.Case
			c.Name, c.Input = fmt.Sprintf("%s, cut at byte %d", b.Name, n), b.Input[:n]
			cases = append(cases, c)
		}
	case len(b.values) == 0:
		cases = append(cases, b.Case)
	default:
		for _, value := range b.values {
			c := b.Case
			c.Name, c.value = fmt.Sprintf("%s: %s", b.Name, shorten(value)), value
			if result, err := expand(value, nil); err == nil {
				c.result = result
			}
			if !strings.Contains(c.Input, "<<v>>") {
				c.Input += "<<v>>"
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// maxValueInName is how many bytes at each end of a value appear in the name of its case.
const maxValueInName = 120

func shorten(value string) string {
	if len(value) <= 2*maxValueInName {
		return value
	}
	return value[:maxValueInName] + "…" + value[len(value)-maxValueInName:]
}

// Generated returns a case that a test generates, with outcomes written as after "=> " in a file. It panics if one
// is malformed.
func Generated(name, input string, outcomes ...string) Case {
	c := Case{Name: name, Place: "generated", Input: input}
	for _, text := range outcomes {
		o, err := parseOutcome(text)
		if err != nil {
			panic(err)
		}
		c.outcomes = append(c.outcomes, o)
	}
	return c
}
