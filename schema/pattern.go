package schema

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// pattern is a regular expression of a schema.
type pattern struct {
	text       string         // as written in the schema
	expression *regexp.Regexp // nil if Go does not support it
	fault      string         // why Go does not support it
	size       int            // number of instructions: the factor between the length of a text and the worst time
}

// Regular expressions are short, but what they compile to can be large: "(a{30}){30}" compiles to a thousand
// instructions, and "\pL" to 1300 runes. Matching takes time in proportion to the instructions, and parsing in
// proportion to the memory.
const (
	// maxInstructions bounds the instructions of one expression.
	maxInstructions = 20_000
	// maxPatternMemory bounds the memory, in bytes, of parsing and keeping all expressions of one schema.
	maxPatternMemory = 16 << 20

	bytesPerInstruction = 64
	bytesPerRune        = 8
	// maxClass is the greatest number of range ends of a named class such as \pC.
	maxClass = 1500
	// maxOnePass limits the memory, in bytes, for which package regexp may store the classes of an expression once
	// per repetition. It does so, to match faster, if the expression begins with ^.
	maxOnePass = 128 << 10
)

// patterns compiles the regular expressions of one document, each once.
type patterns struct {
	limit  int // maximum length of a text, in bytes
	memory *quota
	known  map[string]*pattern // nil until it is needed
}

// add adds an expression, and charges for parsing before anything is compiled.
func (p *patterns) add(expression string) error {
	if _, ok := p.known[expression]; ok {
		return nil
	}
	if len(expression) > p.limit {
		return tooMany("bytes of a regular expression", p.limit)
	}
	if p.known == nil {
		p.known = map[string]*pattern{}
	}
	p.known[expression] = nil
	return p.memory.take(parseMemory(expression))
}

// get compiles an expression that was added. The error matches [ErrLimit]; an expression that Go does not support is
// not an error.
func (p *patterns) get(text string) (*pattern, error) {
	if known := p.known[text]; known != nil {
		return known, nil
	}
	compiled := &pattern{text: text}
	p.known[text] = compiled
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		compiled.fault = "the regular expression is not supported: " + truncate(err.Error(), maxExpected)
		return compiled, nil
	}
	instructions, runes, repeated := sizeOf(tree)
	if instructions > maxInstructions {
		return nil, tooMany("instructions of a regular expression", maxInstructions)
	}
	// A group around the expression hides a ^ at the beginning, so that no class is stored more than once.
	expression := text
	if repeated*bytesPerRune > maxOnePass {
		expression, repeated = "("+text+")", runes
	}
	if err := p.memory.take(instructions*bytesPerInstruction + repeated*bytesPerRune); err != nil {
		return nil, err
	}
	compiled.size = int(instructions)
	if compiled.expression, err = regexp.Compile(expression); err != nil {
		compiled.fault = "the regular expression is not supported"
	}
	return compiled, nil
}

// sizeOf returns upper bounds of the size of a compiled expression: its instructions, the runes of its classes, and
// these runes counted again for each repetition.
func sizeOf(re *syntax.Regexp) (instructions, runes, repeated int64) {
	instructions = 1
	for _, sub := range re.Sub {
		i, r, again := sizeOf(sub)
		instructions, runes, repeated = instructions+i, runes+r, repeated+again
	}
	switch re.Op {
	case syntax.OpLiteral:
		instructions += int64(len(re.Rune))
	case syntax.OpCharClass:
		runes += int64(len(re.Rune))
		repeated += int64(len(re.Rune))
	case syntax.OpRepeat:
		times := int64(max(re.Max, re.Min, 1))
		instructions, repeated = instructions*times, repeated*times
	}
	return instructions, runes, repeated
}

// parseMemory returns an upper bound of the memory, in bytes, that parsing an expression takes. The syntax need not be
// valid. Named classes are large. With the flag i, the parser looks at every rune of a range.
func parseMemory(expression string) int64 {
	fold := foldsCase(expression)
	class := int64(maxClass)
	if fold {
		class *= 2
	}
	runes := int64(len(expression))
	previous := rune(0)
	for i := 0; i < len(expression); {
		r, size := utf8.DecodeRuneInString(expression[i:])
		i += size
		switch {
		case r == '\\' && i < len(expression):
			if expression[i] == 'p' || expression[i] == 'P' {
				runes += class
			}
			r = rune(expression[i])
			i++
		case r == '-' && fold:
			runes += foldedRange(previous, expression[i:])
		}
		previous = r
	}
	return runes * bytesPerRune
}

// foldsCase reports whether an expression has a group with the flag i.
func foldsCase(expression string) bool {
	for _, group := range strings.Split(expression, "(?")[1:] {
		flags := group[:len(group)-len(strings.TrimLeft(group, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
	}
	return false
}

// foldedRange returns how many runes the parser looks at for a range from low to the rune at the beginning of text.
// The parser looks only at runes that exist in another case.
func foldedRange(low rune, text string) int64 {
	const first, last = 0x41, 0x1e943
	high, _ := utf8.DecodeRuneInString(text)
	if high == '\\' && len(text) > 1 && (text[1] == 'x' || '0' <= text[1] && text[1] <= '7') {
		high = last // a number
	}
	return max(int64(min(high, last))-int64(max(low, first)), 0)
}

// maxUnwatched is the greatest product of text length and instructions for which
// a match runs without looking at the clock: a few milliseconds at most.
const maxUnwatched = 1 << 18

// match reports whether text matches p. If that takes too long, it returns false
// and sets r.err. The time is linear in the length of the text, with a factor that
// depends on the expression.
func (r *run) match(p *pattern, text []byte) bool {
	work := int64(len(text)) * int64(p.size)
	if !r.spend(1 + int(min(work/64, refuelUnits))) {
		return false
	}
	if work <= maxUnwatched {
		return p.expression.Match(text)
	}
	return p.expression.MatchReader(&watchedText{run: r, text: text, units: 1 + p.size/64}) && r.err == nil
}

// watchedText passes a text to the matcher rune by rune, and ends the text when
// the time is up.
type watchedText struct {
	run   *run
	text  []byte
	units int
}

func (w *watchedText) ReadRune() (c rune, size int, err error) {
	if len(w.text) == 0 || !w.run.spend(w.units) {
		return 0, 0, io.EOF
	}
	c, size = utf8.DecodeRune(w.text)
	w.text = w.text[size:]
	return c, size, nil
}
