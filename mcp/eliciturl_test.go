package mcp_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// Rule H7: URLs must use https or the loopback interface, and must not deceive the user.
func TestElicitURLMustBeSafe(t *testing.T) {
	for _, address := range []string{
		"https://example.com/pay?id=1", "HTTPS://example.com", "https://[2001:db8::1]:8443/x#y", "https://xn--pple-43d.com/",
		"http://127.0.0.1:8080/", "http://[::1]/", "http://LOCALHOST:1/",
	} {
		if u, err := mcp.ParseElicitURL(address); err != nil || u.Hostname() == "" {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{
		"", "example.com", "//example.com/", "--new-window", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://example.com/",
		"https://", "https:///path", "https:example.com", "https://:443/", "https://%zz/", "https://example.com:x/",
		"http://example.com/", "http://localhost.evil.example/", "http://127.0.0.1.evil.example/", "http://0.0.0.0/",
		"https://example.com@evil.example/", "https://user:secret@example.com/", "https://@example.com/",
		"https://example.com/a b", "https://example.com/\n", "https://example.com/\x1b[2J", "https://example.com/\u202egpj", "https://exa\u200bmple.com/", "https://example.com/\xff",
		"https://example.com\\@evil.example/",
		"https://example.com/" + strings.Repeat("x", mcp.MaxElicitURL),
	} {
		if u, err := mcp.ParseElicitURL(address); err == nil {
			t.Errorf("%q is accepted: %v", address, u)
		}
	}
}
