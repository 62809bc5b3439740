package quoting

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/must"
)

// hostile are names in which shells would find commands, flags or quotation marks.
var hostile = []string{
	"", "plain", "a b", "a  b", "=ls", "%1", "-x", "--config=/x", "--%", "--", "$(ran)", "$HOME", "`ran`", "a;ran",
	"a|ran", "a&ran", "a>ran", "a\nran", "!!",
	"it's", "'", "''", `'"'`, `\`, `\'`, `a\\b`, `\n`, "~", "a*b?[c]", "{a,b}", "#x", "^x", "(ran)", "a,b", "@x", "1kb",
	"-a.b", "-a:b", "a.b", `C:\x`,
	"‘; ran; ‘", "’; ran; ’", "‚; ran; ‚", "‛; ran; ‛", "“$(ran)”", "„x", "–x", "—x", "é'é", "\u00a0;\u00a0ran",
}

// PowerShell reads each text as one argument, which is the name. The rules are those of about_Quoting_Rules,
// about_Parsing and about_Special_Characters. Nothing is expanded between single quotation marks.
func TestPowerShellReadsQuotedWordsAsNames(t *testing.T) {
	for _, name := range hostile {
		quoted := PowerShell.Quote(name)
		got, rest, ok := powerShellWord(quoted)
		must.CheckThat(t, ok && rest == "" && got == name, "%s is %q and then %q, want %q", quoted, got, rest, name)
		line := PowerShell.Command([]string{"call", "--config", name}, "srv", name)
		must.CheckEqual(t, strings.HasPrefix(name, "-"), strings.Contains(line, " srv -- "), line)
	}
}

// powerShellWord reads the first argument of a line of PowerShell. It reports false for a text that PowerShell would
// not pass unchanged to a program.
func powerShellWord(line string) (word, rest string, ok bool) {
	isQuote := func(r rune) bool { return strings.ContainsRune("'‘’‚‛", r) }
	first, size := utf8.DecodeRuneInString(line)
	if !isQuote(first) {
		word, rest, _ = strings.Cut(line, " ")
		const meaning = "\t\r\n ,;&|<>(){}`$\"“”„@#*?~%+[]!^=."
		isNumber := word != "" && word[0] >= '0' && word[0] <= '9'
		isParameter := strings.HasPrefix(word, "-") && strings.ContainsAny(word, ".:")
		// = and . within a word have none
		expands := strings.ContainsAny(strings.TrimLeft(word, "abcdefghijklmnopqrstuvwxyz"), meaning[:len(meaning)-2])
		return word, rest, word != "" && !isNumber && !isParameter && !expands &&
			!strings.ContainsAny(word[:1], meaning) &&
			!strings.ContainsFunc(word, func(r rune) bool { return isQuote(r) || r > 0x7F })
	}
	var b strings.Builder
	for i := size; i < len(line); {
		r, n := utf8.DecodeRuneInString(line[i:])
		i += n
		if isQuote(r) {
			next, n := utf8.DecodeRuneInString(line[i:])
			if !isQuote(next) {
				return b.String(), line[i:], i == len(line) || line[i] == ' '
			}
			r, i = next, i+n
		}
		b.WriteRune(r)
	}
	return b.String(), "", false
}

// The zero Syntax reads words as POSIX shells do. TestShellsCompleteCommandLines has shells read them.
func TestUnixShellsReadQuotedWordsAsNames(t *testing.T) {
	for _, name := range hostile {
		for _, text := range []string{"x=" + Unix.Quote(name), "x=" + Escape(name)} {
			if got, _, open := split(text, Syntax{}); open != 0 || len(got) != 1 || got[0] != "x="+name {
				t.Errorf("%s is %q, open %q, want %q", text, got, open, name)
			}
		}
		line := Unix.CommandWith([]string{"call"}, []string{"npx", name}, "srv", name)
		got, _, open := split(line, Syntax{})
		must.CheckThat(t, open == 0 && got[len(got)-1] == name && strings.HasPrefix(name, "-") == (got[3] == "--"),
			"%s: %q, open %q", line, got, open)
	}
}
