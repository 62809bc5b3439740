// Package secrets removes the secrets of a request to an authorization server from the response, because a server can
// repeat what it received, for example in errors.
package secrets

import (
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Set are the secret values of one exchange.
type Set struct {
	// Sent values are removed in whole and in part: some servers shorten or quote what they repeat.
	Sent []string
	// Received values are removed in whole only, because an error can share words with them.
	Received []string
}

// Memory knows the sent values of earlier exchanges, because a server can repeat them later: a login that follows a
// refused refresh token can fail with an error about that token. The zero Memory is empty. It is safe for concurrent
// use.
type Memory struct {
	mu   sync.Mutex
	sent []string // newest last, each once
}

// maxRemembered limits the values in a Memory. An exchange sends about four.
const maxRemembered = 64

// With adds the values of an exchange to the earlier ones.
func (m *Memory) With(s Set) Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, value := range s.Sent {
		if len(value) >= partLength { // a shorter value may occur in later texts by chance
			m.sent = append(slices.DeleteFunc(m.sent, func(old string) bool { return old == value }), value)
		}
	}
	m.sent = slices.Delete(m.sent, 0, max(0, len(m.sent)-maxRemembered))
	s.Sent = append(slices.Clone(m.sent), s.Sent...)
	return s
}

const (
	removed = "***"

	// partLength is the length of the parts of sent values that are removed, in bytes.
	partLength = 8
)

// parameters lists the request parameters whose values are secret.
var parameters = []string{
	"client_secret", "client_assertion", "code", "code_verifier", "refresh_token", "assertion", "subject_token",
	"actor_token", "token",
}

// IsParameter reports whether the value of a parameter of a request is secret.
func IsParameter(name string) bool { return slices.Contains(parameters, name) }

// Of returns the secrets of a request. It reads a copy of the body.
func Of(req *http.Request) (s Set) {
	for _, name := range []string{"Authorization", "Dpop"} {
		for _, value := range req.Header[name] {
			s.Sent = append(s.Sent, value[strings.LastIndexByte(value, ' ')+1:])
		}
	}
	if _, password, ok := req.BasicAuth(); ok {
		decoded, _ := url.QueryUnescape(password)
		s.Sent = append(s.Sent, password, decoded)
	}
	if req.Header.Get("Content-Type") == "application/x-www-form-urlencoded" && req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			form, _ := io.ReadAll(body) // it is in memory
			_, values := RedactForm(string(form), "", IsParameter)
			s.Sent = append(s.Sent, values...)
		}
	}
	return s
}

// RedactForm replaces the secret values of a form, and returns them. It keeps the order.
func RedactForm(form, replacement string, isSecret func(name string) bool) (clean string, values []string) {
	pairs := strings.Split(form, "&")
	for i, pair := range pairs {
		name, value, hasValue := strings.Cut(pair, "=")
		if pair == "" || !isSecret(name) {
			continue
		}
		pairs[i] = replacement
		if hasValue {
			pairs[i] = name + "=" + replacement
		}
		if secret, err := url.QueryUnescape(value); err == nil {
			values = append(values, secret)
		}
	}
	return strings.Join(pairs, "&"), values
}

// Clean returns the printable characters of a text, with a replacement in place of secrets. If there are no secrets, it
// returns the text.
func (s Set) Clean(text, replacement string) string {
	if len(s.Sent)+len(s.Received) == 0 {
		return text
	}
	text = Printable(text) // first, because other characters may split a secret
	lower := strings.ToLower(text)
	secret := make([]bool, len(text))
	mark := func(form string, isWord bool) {
		for from := 0; form != ""; {
			i := strings.Index(lower[from:], form)
			if i < 0 {
				return
			}
			start, end := from+i, from+i+len(form)
			for i := start; i < end && !(isWord && (isWordByte(lower, start-1) || isWordByte(lower, end))); i++ {
				secret[i] = true
			}
			from = start + 1
		}
	}
	for _, value := range s.Received {
		for _, form := range encodings(value) {
			if len(form) >= 4 {
				mark(form, false)
			}
		}
	}
	parts := make(map[string]bool)
	for _, value := range s.Sent {
		for _, form := range encodings(value) {
			if len(form) < partLength {
				mark(form, len(form) < 4)
			}
			for i := range max(0, len(form)-partLength+1) {
				parts[form[i:i+partLength]] = true
			}
		}
	}
	for i := range max(0, len(lower)-partLength+1) {
		if parts[lower[i:i+partLength]] {
			for j := i; j < i+partLength; j++ {
				secret[j] = true
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !secret[i]:
			b.WriteByte(text[i])
		case i == 0 || !secret[i-1]:
			b.WriteString(replacement)
		}
	}
	return b.String()
}

// isWordByte reports whether text contains a letter, a digit or an underscore at i.
func isWordByte(text string, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}

// encodings returns the printable characters of the forms in which a server may repeat a secret, in lower case.
func encodings(secret string) []string {
	raw := []byte(secret)
	quoted := strconv.Quote(secret)
	all := []string{
		secret, quoted[1 : len(quoted)-1], html.EscapeString(secret), url.QueryEscape(secret), url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	}
	for i, form := range all {
		all[i] = strings.ToLower(Printable(form))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Printable returns the characters of s that RFC 6749 allows in errors.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7E {
			return -1
		}
		return r
	}, s)
}

// CleanError returns an error without the secrets of an exchange in its text. Its causes can still be found.
func (s Set) CleanError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := s.Clean(text, removed); clean != Printable(text) {
		return &cleanedError{clean, err}
	}
	return err
}

// cleanedError is an error with its text replaced.
type cleanedError struct {
	text string
	err  error
}

func (e *cleanedError) Error() string { return e.text }

func (e *cleanedError) Unwrap() error { return e.err }
