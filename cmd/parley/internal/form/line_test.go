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
