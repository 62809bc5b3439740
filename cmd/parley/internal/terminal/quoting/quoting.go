// Package quoting writes words and commands that a user can paste into a shell, or that a shell inserts into a line,
// and splits lines into words. The words can be names of a hostile server.
package quoting

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Dialect is how a family of shells quotes words.
type Dialect int

// The dialects.
const (
	Unix       Dialect = iota // bash, zsh, fish and other shells with the quotation marks of POSIX
	PowerShell                // on every system
)

// OfUser returns the dialect of the user's shell.
func OfUser() Dialect {
	if runtime.GOOS == "windows" {
		return PowerShell
	}
	switch filepath.Base(os.Getenv("SHELL")) {
	case "pwsh", "powershell":
		return PowerShell
	}
	return Unix
}

// Command returns a command of parley that the user can paste into a shell. words are the names of the command and its
// flags. Names can be those of a server: the first that begins with - follows a --.
func (d Dialect) Command(words []string, names ...string) string {
	line := slices.Concat([]string{"parley"}, words, names)
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }); i >= 0 {
		line = slices.Insert(line, 1+len(words)+i, "--")
	}
	for i, word := range line {
		line[i] = d.Quote(word)
	}
	return strings.Join(line, " ")
}

// CommandWith is Command for a server that is the command at the end of the line.
func (d Dialect) CommandWith(words, server []string, names ...string) string {
	line := d.Command(words, names...) + " --"
	for _, word := range server {
		line += " " + d.Quote(word)
	}
	return line
}

// Quote returns the text that a shell reads as one word.
func (d Dialect) Quote(word string) string {
	if d.isPlain(word) {
		return word
	}
	return d.quoted(word)
}

func (d Dialect) quoted(word string) string {
	if d == PowerShell {
		// Each of these characters ends a quotation unless it is doubled (about_Quoting_Rules).
		return "'" + strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛").Replace(word) + "'"
	}
	// fish reads backslashes within quotation marks as escapes, and the others do not.
	return "'" + strings.NewReplacer("'", `'\''`, `\`, `'\\'`).Replace(word) + "'"
}

// Variable returns the value of an environment variable within double quotation marks.
func (d Dialect) Variable(name string) string {
	if d == PowerShell {
		return "$env:" + name
	}
	return "$" + name
}

// NextLine returns what continues a command on the next line.
func (d Dialect) NextLine() string {
	if d == PowerShell {
		return " `\n  "
	}
	return " \\\n  "
}

// isPlain reports whether no shell of the dialect changes a word without quotation marks.
func (d Dialect) isPlain(word string) bool {
	within, notFirst := "-._:/@%+,=", "%=" // zsh replaces =name, and fish %self
	if d == PowerShell {
		within, notFirst = `-._:/=\`, ".:=0123456789" // 1kb is a number
		if strings.HasPrefix(word, "-") {
			within = "-=" // it divides -a.b and -a:b
		}
	}
	for i, r := range word {
		letter := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && !strings.ContainsRune(within, r) || i == 0 && strings.ContainsRune(notFirst, r) {
			return false
		}
	}
	return word != ""
}

// Escape returns the text that bash reads as the word, or as its end, without quotation marks. The common beginning of
// several of them has the same meaning in each.
func Escape(word string) string {
	var b strings.Builder
	for _, r := range word {
		if r < 0x80 && !Unix.isPlain("a"+string(r)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
