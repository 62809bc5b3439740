package httpwire

import (
	"net/url"
	"testing"
)

// Rule T5.
func TestEndpointMustHaveTheOriginOfTheStream(t *testing.T) {
	stream, err := url.Parse("https://example.com:8443/a/sse")
	if err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]string{
		"/messages?session=1":                    "https://example.com:8443/messages?session=1",
		"messages":                               "https://example.com:8443/a/messages",
		"?session=1":                             "https://example.com:8443/a/sse?session=1",
		"https://example.com:8443/m":             "https://example.com:8443/m",
		"https://example.com/m":                  "",
		"http://example.com:8443/m":              "",
		"https://evil.example/m":                 "",
		"//evil.example/m":                       "",
		"https://example.com:8443@evil.example/": "",
		"https://sub.example.com:8443/m":         "",
		"javascript:alert(1)":                    "",
		"file:///etc/passwd":                     "",
		"https://exa mple.com/":                  "",
	} {
		got, err := resolveEndpoint(stream, endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q leads to %q, %v, want %q", endpoint, got, err, want)
		}
	}
}
