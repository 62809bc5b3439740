package httpurl

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// Redact removes secrets from an error of packages net/http and net/url: the URL of the
// request, and the user information, query and fragment of all other URLs in the text, such
// as those of a redirect or a proxy. errors.Is and errors.As still find the causes, except
// the *url.Error with the URL of the request.
func Redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := redactText(text); clean != text {
		return &redacted{clean, err}
	}
	return err
}

// redacted is an error with its text replaced.
type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }

func (e *redacted) Unwrap() error { return e.err }

// redactText removes the user information, query and fragment of each URL in text. A URL
// may be malformed. It ends with its closing quotation mark, or with a space if it is not
// quoted.
func redactText(text string) string {
	var clean strings.Builder
	for {
		before, rest, found := strings.Cut(text, "://")
		clean.WriteString(before)
		if !found {
			return clean.String()
		}
		clean.WriteString("://")
		end := endOfURL(rest, strings.HasSuffix(strings.TrimRightFunc(before,
			func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }), `"`))
		address := rest[:end]
		text = rest[end:]
		if i := strings.IndexAny(address, "?#"); i >= 0 {
			address = address[:i]
		}
		if i := strings.LastIndexByte(address, '@'); i >= 0 {
			address = address[i+1:]
		}
		clean.WriteString(address)
	}
}

// endOfURL returns the length of the URL at the start of text. In a quoted URL a backslash
// precedes quotation marks.
func endOfURL(text string, quoted bool) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"', !quoted && (c == ' ' || c == '\''):
			return i
		}
	}
	return len(text)
}
