package jsonedit

import (
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

var (
	memberValue  = regexp.MustCompile(`(:\s*)"(?:[^"\\]|\\.)*"`)
	elementValue = regexp.MustCompile(`^(\s*)"(?:[^"\\]|\\.)*"(\s*,?\s*)$`)
)

// Diff returns the changes in the unified format. Strings that were in the file before are shown as "…", because they can
// be secrets. It returns "" if there is no change.
func (f *File) Diff() string {
	text := string(diff.Diff(f.path, f.old, f.path, f.Bytes()))
	_, text, _ = strings.Cut(text, "\n") // the command diff
	old := make(map[string]bool)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-") {
			old[withoutComma(line)] = true
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "+") || old[withoutComma(line)] {
			line = line[:1] + hidden(line[1:])
		}
		b.WriteString(line)
	}
	return b.String()
}

// withoutComma returns a line of a difference without its sign and the comma that a new last member adds.
func withoutComma(line string) string { return strings.ReplaceAll(line[1:], ",", "") }

// hidden returns a line without the values of its strings.
func hidden(line string) string {
	return elementValue.ReplaceAllString(memberValue.ReplaceAllString(line, `$1"…"`), `$1"…"$2`)
}
