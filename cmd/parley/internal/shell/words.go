// Package shell has the parts of an interactive shell: command lines, their history, and an editor for them at a terminal.
package shell

import (
	"errors"
	"strings"
)

// errQuote is the error of a line with an open quotation.
var errQuote = errors.New("the closing quotation mark is missing")

// Split splits a line into words as a POSIX shell does: white space separates words, quotation marks and backslashes
// quote. Nothing is expanded. A word that begins with # begins a comment.
func Split(line string) (words []string, err error) {
	words, _, err = split(line)
	return words, err
}

// Cursor splits the part of a line before the cursor into the words before the current one, and the current one. An open
// quotation is part of the current word. start is the index in the line at which the current word begins.
func Cursor(line string) (before []string, current string, start int) {
	words, start, _ := split(line)
	if start == len(line) {
		return words, "", start
	}
	return words[:len(words)-1], words[len(words)-1], start
}

// split returns the words of a line, and the index at which the last word begins: that of the end if the line ends after
// it.
func split(line string) (words []string, start int, err error) {
	var word strings.Builder
	var quote byte // the open quotation mark, or 0
	inWord := false
	start = len(line)
	for i := 0; i < len(line); i++ {
		c := line[i]
		isSpace := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		if !inWord && !isSpace {
			if c == '#' {
				return words, len(line), nil
			}
			inWord, start = true, i
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
		case c == '\\' && quote != '\'' && i+1 < len(line) && (quote == 0 || strings.IndexByte(`"\$`+"`", line[i+1]) >= 0):
			i++
			word.WriteByte(line[i])
		default:
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	if quote != 0 {
		err = errQuote
	}
	return words, start, err
}
