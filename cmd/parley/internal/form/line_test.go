package form

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestLineReturnsTheTextOrTheCancellation(t *testing.T) {
	for name, test := range map[string]struct {
		keys     string
		text     string
		answered bool
	}{
		"entered":   {"http://127.0.0.1:1/callback?code=x\r", "http://127.0.0.1:1/callback?code=x", true},
		"empty":     {"\r", "", true},
		"interrupt": {"\x03", "", false},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		text, answered, err := screen.Line(t.Context(), "Paste it here:", false)
		if err != nil || text != test.text || answered != test.answered {
			t.Errorf("%s: %q, %t, %v", name, text, answered, err)
		}
	}
}

func TestLineDoesNotEchoASecret(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("hunter2\r"), Out: &out}
	if text, answered, err := screen.Line(t.Context(), "Secret:", true); err != nil || text != "hunter2" || !answered {
		t.Errorf("%q, %t, %v", text, answered, err)
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
	_, answered, err := (&Screen{In: in, Out: &firstWrite{asked}}).Line(ctx, "Paste it here:", false)
	if answered || !errors.Is(err, context.Canceled) {
		t.Errorf("%t, %v", answered, err)
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
		keys     string
		chosen   string
		answered bool
	}{
		"initial":   {"\r", "us", true},
		"next":      {"\x1b[B\r", "eu", true},
		"interrupt": {"\x03", "", false},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		chosen, answered, err := screen.Choose(t.Context(), "Region", []string{"eu", "us"}, "us")
		if err != nil || chosen != test.chosen || answered != test.answered {
			t.Errorf("%s: %q, %t, %v", name, chosen, answered, err)
		}
	}
}
