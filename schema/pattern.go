package schema

import (
	"regexp"
	"regexp/syntax"
)

// Bounds of regular expressions beyond their length: "(a{30}){30}" is short, but
// compiles to a thousand instructions. Matching takes time in proportion.
const (
	maxInstructions      = 20_000
	maxInstructionsTotal = 200_000
)

// patterns compiles the regular expressions of one document, each once.
type patterns struct {
	limit    int // in bytes
	total    int
	compiled map[string]*pattern // nil for what is not a regular expression
}

// check refuses expressions that are too long or compile to too much. Whether
// they are expressions at all is not its question.
func (p *patterns) check(expression string) error {
	if _, ok := p.compiled[expression]; ok {
		return nil
	}
	if len(expression) > p.limit {
		return tooMany("bytes of a regular expression", p.limit)
	}
	p.compiled[expression] = nil
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil
	}
	size := instructions(tree)
	if p.total += size; size > maxInstructions {
		return tooMany("instructions of a regular expression", maxInstructions)
	}
	if p.total > maxInstructionsTotal {
		return tooMany("instructions of all regular expressions", maxInstructionsTotal)
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil
	}
	p.compiled[expression] = &pattern{expression: re, size: size}
	return nil
}

// get returns an expression that has passed check, or nil if it is none.
func (p *patterns) get(expression string) *pattern { return p.compiled[expression] }
