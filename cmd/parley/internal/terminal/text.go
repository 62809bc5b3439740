// Package terminal is how parley writes to people: what comes from a server is made
// harmless, tables fit the width, progress stays on one line.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line makes text of a server fit for one line: runs of white space become one
// space, and what a terminal would act upon becomes visible.
func Line(text string) string {
	return neutralise(strings.Join(strings.Fields(text), " "), false)
}

// Block makes text of a server harmless and keeps its lines and tabs.
func Block(text string) string { return neutralise(text, true) }

// JSON makes JSON text harmless and leaves it the same JSON: inside of strings,
// where alone they can be, such characters are escaped.
func JSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7F || !unicode.Is(unicode.Cc, r) && !hides(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// neutralise replaces control characters, escape sequences' first bytes among them,
// by their pictures, and what reorders or hides text by U+FFFD.
func neutralise(text string, lines bool) string {
	clean := func(r rune) bool {
		return (r >= 0x20 && r < 0x7F) || lines && (r == '\n' || r == '\t')
	}
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case clean(r):
			return r
		case r < 0x20:
			return 0x2400 + r // the picture of the control character
		case r == 0x7F:
			return 0x2421
		case unicode.Is(unicode.Cc, r), hides(r), r == utf8.RuneError:
			return utf8.RuneError
		}
		return r
	}, text)
}

// hides reports whether r changes the direction of what is around it, or is not
// seen: both make text look like another. What joins the parts of an emoji may stay.
func hides(r rune) bool {
	switch {
	case r == 0x200D:
		return false
	case r == 0x2028 || r == 0x2029: // line and paragraph separators
		return true
	}
	return unicode.Is(unicode.Cf, r)
}
