package schema

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted bounds a value quoted in a message, in bytes.
const maxQuoted = 64

// maxListed bounds the names or values that a message enumerates.
const maxListed = 16

// maxExpected bounds the text about one expectation, in bytes.
const maxExpected = 1024

// quote returns s as a Go string literal, cut at maxQuoted bytes. It escapes control
// characters and others that cannot be printed, such as bidirectional overrides.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(truncate(s, maxQuoted)) + "…"
}

// truncate cuts s between two runes, at n bytes at most.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cut is truncate, and marks a cut with "…".
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return truncate(s, n) + "…"
}

// escapePath returns a JSON Pointer with the characters escaped that cannot be
// printed, cut at 256 bytes.
func escapePath(path string) string {
	const most = 256
	cut := truncate(path, most)
	quoted := strconv.Quote(cut)
	shown := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if len(cut) < len(path) {
		shown += "…"
	}
	return shown
}

// list joins items with commas. It lists at most maxListed and then "…".
func list(items []string) string {
	if len(items) > maxListed {
		items = append(items[:maxListed:maxListed], "…")
	}
	return strings.Join(items, ", ")
}

// count returns "1 item", "2 items".
func count(n int, noun string) string {
	s := strconv.Itoa(n) + " " + noun
	if n != 1 {
		s += "s"
	}
	return s
}

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

// maxUnwatched is the work, as length of the text times instructions, up to which
// a match runs without looking at the clock: a few milliseconds at most.
const maxUnwatched = 1 << 18

// match reports whether text matches p. If that takes too long, it returns false
// and sets r.err. The time is linear in the length of the text, with a factor that
// the author of the schema chooses.
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

// watchedText passes a text to the matcher rune by rune, and ends it when the time
// is up.
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
