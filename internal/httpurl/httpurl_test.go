package httpurl_test

import (
	"net/url"
	"testing"

	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/must"
)

func TestLoopbackHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.255.0.1": true, "::1": true,
		"::ffff:127.0.0.1": true,
		"":                 false, "localhost.": false, "localhost.example.com": false, "my.localhost": false,
		"example.com": false,
		"0.0.0.0":     false, "::": false, "10.0.0.1": false, "128.0.0.1": false, "::1%eth0": false, "127.1": false,
		"2130706433": false, "0x7f.0.0.1": false, "127.0.0.1:80": false, "[::1]": false,
	} {
		must.CheckEqual(t, httpurl.IsLoopback(host), want, host)
	}
}

func TestSecureURLs(t *testing.T) {
	for text, want := range map[string]bool{
		"https://example.com/a?b": true, "https://10.0.0.1": true, "http://localhost:8080/": true,
		"http://[::1]:1/x": true, "HTTPS://example.com": true,
		"http://example.com": false, "http://localhost.example.com": false, "ftp://localhost": false,
		"//localhost": false, "localhost": false,
		"https://user@example.com": false, "https://example.com#f": false, "https://example.com/#": false,
		"https:///path": false, "": false, "https://[::1": false,
	} {
		u, err := httpurl.ParseSecure(text)
		must.CheckThat(t, (err == nil) == want && (u == nil) != want, "ParseSecure(%q) = %v, %v", text, u, err)
	}
}

func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"https://example.com/a", "https://EXAMPLE.com:443/b?c", true},
		{"http://example.com", "http://example.com:80/", true},
		{"http://[::1]:81/", "http://[::1]:81", true},
		{"https://example.com", "http://example.com", false},
		{"https://example.com", "https://example.com:444", false},
		{"https://example.com", "https://www.example.com", false},
		{"http://example.com:443", "https://example.com", false},
	} {
		a, _ := url.Parse(c.a)
		b, _ := url.Parse(c.b)
		must.CheckEqual(t, httpurl.SameOrigin(a, b), c.want, c.a, c.b)
	}
}

func TestCanonicalURIs(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://Example.COM:443/":       "https://example.com",
		"https://example.com:8443/Mcp":   "https://example.com:8443/Mcp",
		"http://localhost:80/mcp/?a=B":   "http://localhost/mcp/?a=B",
		"https://example.com?":           "https://example.com?",
		"https://example.com/a%2Fb":      "https://example.com/a%2Fb",
		"https://example.com/mcp#x":      "",
		"https://u:p@example.com/mcp":    "",
		"example.com/mcp":                "",
		"https://example.com:80/x?y#":    "",
		"https://[2001:DB8::1]:443/path": "https://[2001:db8::1]/path",
	} {
		got, err := httpurl.Canonical(text)
		must.CheckThat(t, got == want && (err == nil) == (want != ""), "Canonical(%q) = %q, %v", text, got, err)
	}
}

func TestCharactersOfInternationalTemplates(t *testing.T) {
	for r, want := range map[rune]bool{
		'a': false, 0x9F: false, 0xA0: true, 'é': true, 0xFDCF: true, 0xFDD0: false, 0xFDEF: false, 0xFDF0: true,
		0xFFEF: true,
		0xFFF0: false, 0xFFFD: false, 0x10000: true, 0x1FFFD: true, 0x1FFFE: false, 0x1FFFF: false, 0xE0001: false,
		0xE1000: true,
		0xF0000: true, 0x10FFFD: true, 0x10FFFE: false,
	} {
		must.CheckEqual(t, httpurl.IsInternational(r), want, r)
	}
}
