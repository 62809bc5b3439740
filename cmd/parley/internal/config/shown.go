package config

import (
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
)

// WithoutSecrets returns a URL without the parts that may have secrets. References remain.
func WithoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // such as a reference
		before, _, _ := strings.Cut(text, "?")
		if _, after, found := strings.Cut(before, "@"); found {
			before = "…@" + after
		}
		return before
	}
	before, _, _ := strings.Cut(text, "?")
	before, _, _ = strings.Cut(before, "#")
	if u.User != nil {
		scheme, after, _ := strings.Cut(before, "://")
		_, after, _ = strings.Cut(after, "@")
		before = scheme + "://" + after
	}
	return before
}

// CommandText returns a command as the user would type it.
func CommandText(name string, args []string) string {
	words := append([]string{name}, args...)
	for i, word := range words {
		if word != "…" {
			words[i] = quoting.OfUser().Quote(word)
		}
	}
	return strings.Join(words, " ")
}

// MaskedCommand is CommandText with … instead of what looks like a secret.
func MaskedCommand(name string, args []string) string { return CommandText(name, Masked(args)) }
