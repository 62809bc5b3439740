// Package plaintext makes texts of peers, such as names, descriptions and arguments, safe to show: no text can look
// like a different one.
package plaintext

import (
	"fmt"
	"strings"
	"unicode"
)

// Replace returns a text in which shown replaces the control characters, and the characters that are invisible or
// change the direction of the text. Invalid UTF-8 becomes U+FFFD.
//
// The characters that make up emoji are not replaced: one U+FE0E or U+FE0F after a symbol, and U+200D between
// symbols.
func Replace(text string, shown func(r rune) string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return text
	}
	var b strings.Builder
	var before rune // the last character that is not replaced
	for i, r := range text {
		switch {
		case !unicode.IsControl(r) && !isInvisible(r), joins(before, r, text[i:]):
			b.WriteRune(r)
			before = r
		default:
			b.WriteString(shown(r))
			before = 0
		}
	}
	return b.String()
}

// CodePoint returns the number of a character, as in <U+202E>.
func CodePoint(r rune) string { return fmt.Sprintf("<U+%04X>", r) }

// isInvisible reports whether a character has no glyph (Unicode, Default_Ignorable_Code_Point and format characters),
// separates lines, or is blank without being white space.
func isInvisible(r rune) bool {
	return r == '\u2028' || r == '\u2029' || r == '\u2800' ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// joins reports whether the character at the beginning of rest is part of an emoji.
func joins(before, r rune, rest string) bool {
	// skin tones
	isSymbol := func(r rune) bool { return unicode.Is(unicode.So, r) || '\U0001F3FB' <= r && r <= '\U0001F3FF' }
	switch r {
	case '\uFE0E', '\uFE0F':
		return isSymbol(before)
	case '\u200D':
		next := []rune(rest[:min(len(rest), 8)])
		return (isSymbol(before) || before == '\uFE0F') && len(next) > 1 && isSymbol(next[1])
	}
	return false
}
