package form

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestSuspiciousAddressesAreWarnedOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/pay?id=1":        "",
		"http://127.0.0.1:8080/":              "",
		"http://localhost/":                   "",
		"https://xn--pple-43d.com/":           "Punycode",
		"https://login.XN--pple-43d.com/":     "Punycode",
		"https://аpple.com/":                  "а (U+0430)",
		"https://example.com@evil.example/":   "that is evil.example",
		"http://example.com/":                 "unencrypted",
		"https://example.com/xn--path-is-not": "",
	} {
		u, err := parseAddress(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got := strings.Join(suspicions(u), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("of %s it warns %q, want %q", address, got, want)
		}
	}
}

func TestWhatIsNoWebPageIsRefusedWithoutAsking(t *testing.T) {
	for _, address := range []string{
		"", "example.com", "javascript:alert(1)", "file:///etc/passwd", "https://", "https:///path",
		"https://example.com/\u202egpj", "https://example.com/\x1b[2J", "https://example.com/a b", "https://example.com/%zz",
	} {
		screen := &Screen{} // which cannot ask
		_, err := screen.Consent(t.Context(), "server", &mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: address})
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || reported.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestFormsThatCannotBeShownAreRefusedWithoutAsking(t *testing.T) {
	_, err := (&Screen{}).Fill(t.Context(), "server", &mcp.ElicitParams{RequestedSchema: []byte(`{"type":"array"}`)})
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) || reported.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("it says %v", err)
	}
}
