// Package httpurl tests and normalizes http and https URLs: which hosts are on the
// loopback interface, which URLs are safe to use, and which two URLs are equal. It also tests
// the characters of international URLs and URI templates.
package httpurl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// IsLoopback reports whether host, without port and brackets, is "localhost" or an
// address of the loopback interface. It resolves no names. An address with an IPv6 zone
// is not a loopback address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() && addr.Zone() == ""
}

// IsSecure reports whether the scheme of u is https, or http on the loopback interface,
// so that nobody on the network can read the connection.
func IsSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && IsLoopback(u.Hostname())
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	}
	return "80"
}

var (
	errNotAbsolute = errors.New("the URL must be absolute and must not have a user or a fragment")
	errNotSecure   = errors.New("the URL must begin with https:// (http:// is allowed on the loopback interface only)")
)

// ErrInsecure means that a URL is not https, or contains a part that is not allowed. http may be allowed on the
// loopback interface.
var ErrInsecure = errors.New("insecure or invalid URL")

// MaxLength is the maximum length of a URL for [Parse] in bytes.
const MaxLength = 4096

// Parse parses an http or https URL. It must have a host, and neither user information nor a fragment. The errors wrap
// [ErrInsecure] and do not repeat the URL.
func Parse(raw string) (*url.URL, error) {
	if len(raw) > MaxLength {
		return nil, fmt.Errorf("%w: it is too long: %d bytes, the limit is %d", ErrInsecure, len(raw), MaxLength)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: cannot parse it", ErrInsecure) // err repeats the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w: the scheme must be https, got %.20q", ErrInsecure, u.Scheme)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: it must have a host", ErrInsecure)
	case u.User != nil:
		return nil, fmt.Errorf("%w: it must not have user information", ErrInsecure)
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%w: it must not have a fragment", ErrInsecure)
	}
	return u, nil
}

// WithoutQuery returns the scheme, host and path of a URL, for errors and logs.
func WithoutQuery(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// ParseSecure parses a URL for which [IsSecure] holds. It must have a host, and neither
// user information nor a fragment.
func ParseSecure(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.Contains(text, "#") {
		return nil, errNotAbsolute
	}
	if !IsSecure(u) {
		return nil, errNotSecure
	}
	return u, nil
}

// Canonical returns the form in which resource URIs are compared: scheme and host in
// lower case, no default port, and no path instead of "/" (2026-07-28,
// basic/authorization, Canonical Server URI).
func Canonical(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Contains(text, "#") {
		return "", errNotAbsolute
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	return scheme + "://" + host + path, nil
}

// IsOrigin reports whether text has the form in which browsers send an origin (RFC 6454,
// section 6.2). The origin "null" is rejected, because all sandboxed pages send it.
func IsOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != strings.ToLower(u.Scheme+"://"+u.Host) ||
		strings.Contains(origin, "*") {
		return false
	}
	return !(u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80")
}

// IsHost reports whether host can be the value of a Host header, or is an IPv6 address.
func IsHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	u, err := url.Parse("http://" + host)
	return err == nil && u.Host == host && u.Hostname() != "" && !strings.Contains(host, "*")
}

var errIssuerQuery = errors.New("an issuer identifier must not have a query")

// CheckIssuer returns an error if text is not the identifier of an authorization server:
// a URL for [ParseSecure] without query (RFC 8414, section 2).
func CheckIssuer(text string) error {
	u, err := ParseSecure(text)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = errIssuerQuery
	}
	return err
}

// IsInternational reports whether a URI template may contain a character beyond ASCII in a
// literal (RFC 6570, section 1.5, ucschar and iprivate). It is false for control characters,
// noncharacters, specials and tags, and for ASCII.
func IsInternational(r rune) bool {
	switch {
	case r < 0xA0, 0xFDD0 <= r && r <= 0xFDEF, 0xFFF0 <= r && r <= 0xFFFF, 0xE0000 <= r && r <= 0xE0FFF:
		return false
	}
	return r&0xFFFE != 0xFFFE
}
