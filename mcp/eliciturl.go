package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// MaxElicitURL is the maximum length of an [ElicitParams.URL], in bytes.
const MaxElicitURL = 8 << 10

// ParseElicitURL parses an [ElicitParams.URL] and checks that a client can show it to its user. The
// URL must use https, or http to the loopback interface. It must have a host, must not contain
// credentials or invisible characters, and must not exceed [MaxElicitURL]. The function does not
// detect other deceptive URLs, such as hosts in Punycode. (2025-11-25 and 2026-07-28,
// client/elicitation, Safe URL Handling.)
func ParseElicitURL(address string) (*url.URL, error) {
	if len(address) > MaxElicitURL {
		return nil, fmt.Errorf("URL is too long: %d bytes, the limit is %d", len(address), MaxElicitURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == unicode.ReplacementChar }) {
		return nil, errors.New("URL must not contain spaces or invisible characters")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot parse URL: %w", errors.Unwrap(err)) // the outer error repeats the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("URL scheme must be https, got %.16q", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("URL must have a host")
	case u.User != nil:
		return nil, errors.New("URL must not contain credentials")
	case !httpurl.IsSecure(u):
		return nil, errors.New("URL must use https: http is allowed only to the loopback interface")
	}
	return u, nil
}
