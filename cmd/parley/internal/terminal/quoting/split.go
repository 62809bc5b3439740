package quoting

import (
	"regexp"
	"strings"
)

// Syntax is how a shell reads a line: white space separates words, quotation marks and backslashes quote, and a word
// that begins with # begins a comment. The zero Syntax is the syntax of a POSIX shell.
type Syntax struct {
	Getenv func(string) string // returns the values of variables and ~/; nil if they are not replaced
	Fish   bool                // backslashes also quote within ' marks
}

// Cursor splits the part of a line before the cursor into the words before the current one, and the current one. An
// open quotation is part of the current word. start is the index in the line at which the current word begins, and
// quote is the mark of an open quotation, or 0. Nothing but variables is expanded.
func (s Syntax) Cursor(line string) (before []string, current string, start int, quote byte) {
	words, start, quote := split(line, s)
	if start == len(line) {
		return words, "", start, quote
	}
	return words[:len(words)-1], words[len(words)-1], start, quote
}

// variable matches a variable at the beginning of a text.
var variable = regexp.MustCompile(`^\$(?:(\w+)|\{(\w+)\})`)

// split returns the words of a line, the index at which the last word begins, and the mark of an open quotation. If
// the line ends between words, the index is its length.
func split(line string, s Syntax) (words []string, start int, quote byte) {
	var word strings.Builder
	inWord := false
	start = len(line)
	for i := 0; i < len(line); i++ {
		c := line[i]
		isSpace := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		if !inWord && !isSpace {
			if c == '#' {
				return words, len(line), 0
			}
			inWord, start = true, i
			if s.Getenv != nil && strings.HasPrefix(line[i:], "~/") {
				word.WriteString(s.Getenv("HOME"))
				continue
			}
		}
		switch {
		case quote == 0 && isSpace:
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord, start = false, len(line)
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && i+1 < len(line) && s.quotes(line[i+1], quote):
			i++
			word.WriteByte(line[i])
		case c == '$' && quote != '\'' && s.Getenv != nil && variable.MatchString(line[i:]):
			name := variable.FindStringSubmatch(line[i:])
			word.WriteString(s.Getenv(name[1] + name[2]))
			i += len(name[0]) - 1
		default:
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, start, quote
}

// quotes reports whether a backslash quotes a character within quotation marks, or without if quote is 0.
func (s Syntax) quotes(c, quote byte) bool {
	switch quote {
	case '"':
		return strings.IndexByte(`"\$`+"`", c) >= 0
	case '\'':
		return s.Fish && (c == '\'' || c == '\\')
	}
	return true
}
