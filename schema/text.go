package schema

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted bounds a value quoted in a message, in bytes.
const maxQuoted = 64

// maxListed bounds the names or values that a message enumerates.
const maxListed = 16

// maxExpected bounds the text of one expectation, in bytes.
const maxExpected = 1024

// quote returns s as a Go string literal, cut at maxQuoted bytes. It escapes control
// characters and other unprintable characters, such as bidirectional overrides.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(truncate(s, maxQuoted)) + "…"
}

// truncate cuts s to at most n bytes, between two runes.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cut truncates s to at most n bytes and marks the cut with "…".
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return truncate(s, n) + "…"
}

// escapePath returns a JSON Pointer with unprintable characters escaped, cut
// at 256 bytes.
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

// list joins items with commas. It lists at most maxListed items, then "…".
func list(items []string) string {
	if len(items) > maxListed {
		items = append(items[:maxListed:maxListed], "…")
	}
	return strings.Join(items, ", ")
}

// count returns "1 item", "2 items", "2 properties".
func count(n int, noun string) string {
	if stem, isY := strings.CutSuffix(noun, "y"); isY && n != 1 {
		noun = stem + "ies"
	} else if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
