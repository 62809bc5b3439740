// Package terminal writes output for users: it sanitises text from servers, fits tables to
// the width of the terminal, and shows progress on one line.
package terminal

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/parley-mcp/parley/internal/plaintext"
)

// Line sanitises text from a server for output on one line: runs of white space become one
// space, and control characters become visible characters.
func Line(text string) string {
	return sanitise(strings.Join(strings.Fields(text), " "), false)
}

// Verbatim sanitises text for output on one line without changing its spaces, for commands that the user can paste.
func Verbatim(text string) string { return sanitise(text, false) }

// Block sanitises text from a server and keeps its newlines and tabs.
func Block(text string) string { return sanitise(text, true) }

// JSON sanitises JSON text without changing its value: it escapes control characters and invisible characters, which
// valid JSON contains in strings only.
func JSON(text string) string {
	return plaintext.Replace(text, func(r rune) string {
		switch {
		case r < 0x20:
			return string(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf("\\u%04x\\u%04x", high, low)
		}
		return fmt.Sprintf("\\u%04x", r)
	})
}

// sanitise replaces C0 control characters, and so the ESC of escape sequences, by their control pictures, and shows
// other control characters and invisible characters by code point.
func sanitise(text string, multiline bool) string {
	return plaintext.Replace(text, func(r rune) string {
		switch {
		case multiline && (r == '\n' || r == '\t'):
			return string(r)
		case r < 0x20:
			return string(0x2400 + r) // the block of control pictures
		case r == 0x7F:
			return "\u2421"
		}
		return plaintext.CodePoint(r)
	})
}
