package server

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-mcp/parley/schema"
)

// A parameter with x-mcp-header is sent in an HTTP header, which proxies and logs can see. It
// must not be a secret (2026-07-28, basic/transports/streamable-http, Custom Headers from Tool
// Parameters), so tools whose mirrored parameters look like secrets are rejected.

// NotSecret allows a tool to mirror parameters into HTTP headers although they look like
// secrets. A parameter with an x-mcp-header is visible to proxies and logs. Without NotSecret,
// AddTool panics and RegisterTool returns an error if the name of such a parameter suggests a
// secret ("sort_key"), or if its schema has writeOnly or "format": "password".
//
// The headers are the values of x-mcp-header of the parameters that are not secrets. AddTool
// also panics, and RegisterTool returns an error, if no parameter has one of the headers.
func NotSecret(headers ...string) Option {
	return ofTool("NotSecret", func(e *toolEntry) { e.notSecret = append(e.notSecret, headers...) })
}

// checkMirrored rejects parameters that are mirrored into headers and look like secrets,
// except for those that NotSecret names.
func checkMirrored(mirrored []schema.HeaderParam, notSecret []string) error {
	for _, header := range notSecret {
		if !slices.ContainsFunc(mirrored, func(p schema.HeaderParam) bool {
			return strings.EqualFold(p.Name, header)
		}) {
			return fmt.Errorf("NotSecret: no parameter has the x-mcp-header %q", header)
		}
	}
	for _, p := range mirrored {
		why := secrecy(p)
		if why == "" || slices.ContainsFunc(notSecret,
			func(header string) bool { return strings.EqualFold(header, p.Name) }) {
			continue
		}
		return fmt.Errorf("the parameter %s is mirrored into the header Mcp-Param-%s, where proxies and logs see it, "+
			"and %s: remove its x-mcp-header, or add the option server.NotSecret(%q)", strings.Join(p.Path, "."),
			p.Name, why, p.Name)
	}
	return nil
}

// secrecy returns why a parameter looks like a secret, or "".
func secrecy(p schema.HeaderParam) string {
	switch {
	case p.WriteOnly:
		return "its schema has writeOnly"
	case strings.EqualFold(p.Format, "password"):
		return `its schema has "format": "password"`
	}
	for _, name := range append(slices.Clone(p.Path), p.Name) {
		for _, word := range words(name) {
			if slices.Contains(secretWords, word) ||
				slices.ContainsFunc(secretEndings, func(end string) bool { return strings.HasSuffix(word, end) }) {
				return fmt.Sprintf("%q looks like the name of a secret", name)
			}
		}
	}
	return ""
}

var (
	secretWords = []string{
		"auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "cvc", "cvv", "jwt", "key",
		"keys", "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pin", "pwd", "secret", "secrets",
		"signature", "ssn",
		"token", "tokens",
	}
	// Secrets whose names are written as one word.
	secretEndings = []string{"token", "password", "passwd", "secret", "apikey", "privatekey", "accesskey", "credential",
		"credentials"}
)

// words splits a name into words in lower case: apiKey, api_key, API-Key and api.key have the
// same two.
func words(name string) []string {
	var all []string
	start, runes := 0, []rune(name)
	end := func(i int) {
		if i > start {
			all = append(all, strings.ToLower(string(runes[start:i])))
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end(i)
			start = i + 1
		case i > start && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i)
			start = i
		}
	}
	end(len(runes))
	return all
}
