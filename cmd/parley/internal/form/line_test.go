package form

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestALineIsEnteredOrNot(t *testing.T) {
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

func TestASecretLineIsNotShown(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("hunter2\r"), Out: &out}
	if text, answered, err := screen.Line(t.Context(), "Secret:", true); err != nil || text != "hunter2" || !answered {
		t.Errorf("%q, %t, %v", text, answered, err)
	}
	if strings.Contains(out.String(), "hunter") {
		t.Errorf("it is shown: %q", out.String())
	}
}

// While somebody is asked to paste, the browser may come back by itself.
func TestALineIsNotWaitedForWhenItIsNotNeededAnyMore(t *testing.T) {
	in, stop := io.Pipe() // at which nobody types
	defer stop.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		<-asked
		cancel()
	}()
	_, answered, err := (&Screen{In: in, Out: &shownOnce{asked}}).Line(ctx, "Paste it here:", false)
	if answered || !errors.Is(err, context.Canceled) {
		t.Errorf("%t, %v", answered, err)
	}
}

// shownOnce closes shown when something is first written.
type shownOnce struct{ shown chan struct{} }

func (s *shownOnce) Write(p []byte) (int, error) {
	if s.shown != nil {
		close(s.shown)
		s.shown = nil
	}
	return len(p), nil
}
