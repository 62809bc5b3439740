package schema

import (
	"io"
	"unicode/utf8"
)

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
