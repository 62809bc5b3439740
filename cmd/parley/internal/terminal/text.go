// Package terminal writes output for users: it sanitises text from servers, fits tables to
// the width of the terminal, and shows progress on one line.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line sanitises text from a server for output on one line: runs of white space become one
// space, and control characters become visible characters.
func Line(text string) string {
	return sanitise(strings.Join(strings.Fields(text), " "), false)
}

// Block sanitises text from a server and keeps its newlines and tabs.
func Block(text string) string { return sanitise(text, true) }

// JSON sanitises JSON text without changing its value: it escapes control characters and
// deceptive characters, which valid JSON contains in strings only.
func JSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7F || !unicode.Is(unicode.Cc, r) && !IsDeceptive(r):
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

// sanitise replaces C0 control characters, and so the ESC of escape sequences, by their
// control pictures, and other control characters and deceptive characters by U+FFFD.
func sanitise(text string, multiline bool) string {
	clean := func(r rune) bool {
		return (r >= 0x20 && r < 0x7F) || multiline && (r == '\n' || r == '\t')
	}
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case clean(r):
			return r
		case r < 0x20:
			return 0x2400 + r // the block of control pictures
		case r == 0x7F:
			return 0x2421
		case unicode.Is(unicode.Cc, r), IsDeceptive(r), r == utf8.RuneError:
			return utf8.RuneError
		}
		return r
	}, text)
}

// IsDeceptive reports whether r is invisible or changes the direction of text, so that
// text can look like other text. U+200D is allowed because it joins the parts of emoji.
func IsDeceptive(r rune) bool {
	switch {
	case r == 0x200D:
		return false
	case r == 0x2028 || r == 0x2029: // line and paragraph separators
		return true
	}
	return unicode.Is(unicode.Cf, r)
}
