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
	compiled map[string]*pattern // nil for an expression that Go does not support
}

// check compiles an expression. It returns an error if the expression is too long
// or too large. Expressions of other syntax than Go's are no error here.
func (p *patterns) check(expression string) error {
	if _, ok := p.compiled[expression]; ok {
		return nil
	}
	if len(expression) > p.limit {
		return tooMany("bytes of a regular expression", p.limit)
	}
	if p.compiled == nil {
		p.compiled = map[string]*pattern{}
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

// get returns an expression that has passed check, or nil if Go does not support it.
func (p *patterns) get(expression string) *pattern { return p.compiled[expression] }

// fault returns the reason why Go does not support an expression.
func (p *patterns) fault(expression string) string {
	_, err := syntax.Parse(expression, syntax.Perl)
	if err == nil {
		return "the regular expression is not supported"
	}
	return "the regular expression is not supported: " + truncate(err.Error(), maxExpected)
}

// instructions returns an upper bound of the size of a compiled regular
// expression. Repetitions make a short expression large.
func instructions(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min, 1)
	}
	return n
}
