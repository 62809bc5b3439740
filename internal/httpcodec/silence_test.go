package httpcodec

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
)

// scripted is text that arrives on a stream after a delay.
type scripted struct {
	after time.Duration
	text  string
}

// silentAfter sends a script on a stream that remains open for an hour afterwards. It returns
// the time between the last text and the end of the stream for its reader.
func silentAfter(t *testing.T, all ...scripted) (after time.Duration, err error) {
	t.Helper()
	r, w := io.Pipe()
	events := NewEventReader(r, 1000)
	events.CloseWhenSilent(r)
	var last time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range all {
			time.Sleep(s.after)
			_, _ = io.WriteString(w, s.text)
		}
		last = time.Now()
		time.Sleep(time.Hour)
		w.Close()
	}()
	for {
		if _, err := events.Next(); err != nil {
			over := time.Now()
			err = events.End(err)
			<-done
			return over.Sub(last), err
		}
	}
}

const comment, data = ": keep-alive\n\n", "data: {}\n\n"

// A stream is lost when its keep-alive comments stop.
func TestStreamIsLostWhenKeepAliveStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, comment}, scripted{15 * time.Second, comment}, scripted{15 * time.Second, comment})
		var silent *call.SilentError
		if !errors.As(err, &silent) || !errors.Is(err, call.ErrConnectionLost) || silent.For != 45*time.Second || after != 45*time.Second {
			t.Errorf("after %v: %v", after, err)
		}
	})
}

func TestStreamWithoutKeepAliveMayBeSilent(t *testing.T) {
	for name, all := range map[string][]scripted{
		"nothing":                   nil,
		"data":                      {{time.Second, data}, {time.Second, data}, {time.Second, data}, {time.Second, data}},
		"one comment":               {{0, comment}},
		"two comments":              {{0, comment}, {15 * time.Second, comment}},
		"padding":                   {{0, comment + comment + comment + comment}},
		"comments before events":    {{time.Second, comment + data}, {time.Second, comment + data}, {time.Second, comment + data}, {time.Second, comment + data}},
		"padding, then a long wait": {{0, comment + comment + comment}, {time.Minute, comment}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if after, err := silentAfter(t, all...); err != io.EOF || after != time.Hour {
				t.Errorf("%s: after %v: %v", name, after, err)
			}
		})
	}
}

// The longest gap counts. An event is as good as a comment.
func TestKeepAliveIntervalMayVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, comment}, scripted{2 * time.Second, comment}, scripted{10 * time.Second, comment},
			scripted{25 * time.Second, data}, scripted{29 * time.Second, comment})
		var silent *call.SilentError
		if !errors.As(err, &silent) || after != 30*time.Second {
			t.Errorf("after %v: %v", after, err)
		}
	})
}

// An event that arrives slowly keeps the stream open.
func TestSlowEventKeepsStreamOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		part := scripted{4 * time.Second, strings.Repeat("x", 10)}
		after, err := silentAfter(t, scripted{0, comment}, scripted{time.Second, comment}, scripted{time.Second, comment},
			scripted{time.Second, "data: "}, part, part, part, scripted{time.Second, "\n"}, scripted{4 * time.Second, "\n"})
		var silent *call.SilentError
		if !errors.As(err, &silent) || silent.For != minSilence || after != minSilence {
			t.Errorf("after %v: %v", after, err)
		}
	})
}
