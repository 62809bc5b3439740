package form

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestLineReturnsTheTextOrTheCancellation(t *testing.T) {
	for name, test := range map[string]struct {
		keys string
		text string
		err  error
	}{
		"entered":   {"http://127.0.0.1:1/callback?code=x\r", "http://127.0.0.1:1/callback?code=x", nil},
		"empty":     {"\r", "", nil},
		"interrupt": {"\x03", "", ErrInterrupted},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		text, err := screen.Line(t.Context(), "Paste it here:", false)
		if err != test.err || text != test.text {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestLineDoesNotEchoASecret(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("hunter2\r"), Out: &out}
	if text, err := screen.Line(t.Context(), "Secret:", true); err != nil || text != "hunter2" {
		t.Errorf("%q, %v", text, err)
	}
	if strings.Contains(out.String(), "hunter") {
		t.Errorf("the secret is echoed: %q", out.String())
	}
}

// The browser can finish a login while the user is asked to paste its address.
func TestLineReturnsWhenItsContextIsCancelled(t *testing.T) {
	in, stop := io.Pipe() // no input
	defer stop.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		<-asked
		cancel()
	}()
	_, err := (&Screen{In: in, Out: &firstWrite{asked}}).Line(ctx, "Paste it here:", false)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// firstWrite is a writer that closes done at the first write.
type firstWrite struct{ done chan struct{} }

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.done != nil {
		close(w.done)
		w.done = nil
	}
	return len(p), nil
}

func TestChooseReturnsTheOptionOrTheCancellation(t *testing.T) {
	for name, test := range map[string]struct {
		keys   string
		chosen string
		err    error
	}{
		"initial":   {"\r", "us", nil},
		"next":      {"\x1b[B\r", "eu", nil},
		"interrupt": {"\x03", "", ErrInterrupted},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		chosen, err := screen.Choose(t.Context(), "Region", []string{"eu", "us"}, "us")
		if err != test.err || chosen != test.chosen {
			t.Errorf("%s: %q, %v", name, chosen, err)
		}
	}
}

func TestConsentWarnsAboutDeceptiveHosts(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/pay?id=1":        "",
		"http://127.0.0.1:8080/":              "",
		"http://localhost/":                   "",
		"https://xn--pple-43d.com/":           "Punycode",
		"https://login.XN--pple-43d.com/":     "Punycode",
		"https://аpple.com/":                  "а (U+0430)",
		"https://example.com/xn--path-is-not": "",
	} {
		u, err := parseAddress(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got := strings.Join(warnings(u), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("warnings for %s: %q, want %q", address, got, want)
		}
	}
}

func TestConsentRejectsInvalidURLsWithoutAsking(t *testing.T) {
	for _, address := range []string{
		"", "example.com", "javascript:alert(1)", "file:///etc/passwd", "https://", "https:///path",
		"https://example.com/\u202egpj", "https://example.com/\x1b[2J", "https://example.com/a b",
		"https://example.com/%zz",
		"https://example.com@evil.example/", "http://example.com/",
	} {
		screen := &Screen{} // cannot ask
		_, err := screen.Consent(t.Context(), "server", &mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: address})
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || reported.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Rule H7: Consent shows the whole URL, highlights the host, and opens the page only if the user
// chooses to.
func TestPagesAreOpenedOnlyWithConsent(t *testing.T) {
	const address = "https://xn--pple-43d.com:8443/pay?id=1#x"
	for name, test := range map[string]struct {
		keys    string
		failure error
		opened  int
		action  mcp.ElicitAction
	}{
		"open":             {"\r", nil, 1, mcp.ElicitAccept},
		"cannot be opened": {"\r", errors.New("no display"), 1, mcp.ElicitAccept},
		"copies the URL":   {"j\r", nil, 0, mcp.ElicitAccept},
		"decline":          {"jj\r", nil, 0, mcp.ElicitDecline},
		"cancel":           {"jjj\r", nil, 0, mcp.ElicitCancel},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			opened := 0
			screen := &Screen{In: strings.NewReader(test.keys), Out: &out,
				Open: func(_ context.Context, got string) error {
					if !strings.Contains(out.String(), "/pay?id=1#x") || got != address {
						t.Errorf("opened %s after the output %q", got, out.String())
					}
					opened++
					return test.failure
				}}
			result, err := screen.Consent(t.Context(), "server",
				&mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: address, Message: "Pay"})
			if err != nil || result.Action != test.action || opened != test.opened {
				t.Errorf("%+v, %v, opened %d times", result, err, opened)
			}
			for _, want := range []string{"server asks", "Pay",
				"https://\x1b[1;7mxn--pple-43d.com:8443\x1b[0m/pay?id=1#x", "Punycode"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output does not contain %q: %q", want, out.String())
				}
			}
		})
	}
}

func TestInterruptIsNoAnswer(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("\x03"), Out: &out}
	if result, err := screen.Consent(t.Context(), "server",
		&mcp.ElicitParams{URL: "https://example.com/"}); err != ErrInterrupted {
		t.Errorf("a page: %+v, %v", result, err)
	}
	for _, keys := range []string{"\x03", "\r\x03"} {
		screen.In = strings.NewReader(keys)
		requested := &mcp.ElicitParams{RequestedSchema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
		if result, err := screen.Fill(t.Context(), "server", requested); err != ErrInterrupted {
			t.Errorf("a form and the keys %q: %+v, %v", keys, result, err)
		}
	}
}

func TestFillRejectsInvalidFormsWithoutAsking(t *testing.T) {
	_, err := (&Screen{}).Fill(t.Context(), "server", &mcp.ElicitParams{RequestedSchema: []byte(`{"type":"array"}`)})
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) || reported.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("error is %v, want invalid params", err)
	}
}
