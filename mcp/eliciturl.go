package mcp

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// MaxElicitURL bounds the URLs that users are sent to, in bytes.
const MaxElicitURL = 8 << 10

// ParseElicitURL parses the URL of an elicitation in [ElicitModeURL] and returns an error unless a user
// can be asked to visit it: it leads over https, or over http to this machine, names a host, carries no
// credentials and has nothing in it that a reader would not see. What else may deceive, such as a host in
// Punycode, is left to whoever shows it (2025-11-25 and 2026-07-28, client/elicitation, Safe URL Handling).
func ParseElicitURL(address string) (*url.URL, error) {
	if len(address) > MaxElicitURL {
		return nil, fmt.Errorf("the URL has %d bytes: at most %d are allowed", len(address), MaxElicitURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == unicode.ReplacementChar }) {
		return nil, errors.New("the URL has characters that are not seen")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the URL cannot be parsed: %w", errors.Unwrap(err)) // its own text repeats the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("the URL's scheme is %.16q: use https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("the URL carries credentials before an @")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("the URL leads over unencrypted http to another machine: use https")
	}
	return u, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
