package httpwire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
)

// scripted is what comes on a stream, and how long after what came before.
type scripted struct {
	after time.Duration
	text  string
}

// silentAfter plays a script on a stream that then stays open for an hour, and returns when
// the stream was given up, counted from its last word.
func silentAfter(t *testing.T, all ...scripted) (after time.Duration, err error) {
	t.Helper()
	r, w := io.Pipe()
	o := Options{DetectSilence: true}
	events := newEventReader(r, 1000)
	o.watchSilence(events, r)
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
		if _, err := events.next(); err != nil {
			over := time.Now()
			err = events.monitor.end(err)
			<-done
			return over.Sub(last), err
		}
	}
}

const interval, data = ": beat\n\n", "data: {}\n\n"

// I6: what has beaten and stops is dead.
func TestAStreamWhoseBeatStopsIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, interval}, scripted{15 * time.Second, interval}, scripted{15 * time.Second, interval})
		var silent *call.SilentError
		if !errors.As(err, &silent) || !errors.Is(err, call.ErrConnectionLost) || silent.For != 45*time.Second || after != 45*time.Second {
			t.Errorf("after %v: %v", after, err)
		}
	})
}

func TestAStreamOfNoKnownBeatMayBeSilent(t *testing.T) {
	for name, all := range map[string][]scripted{
		"nothing":                   nil,
		"data":                      {{time.Second, data}, {time.Second, data}, {time.Second, data}, {time.Second, data}},
		"a greeting":                {{0, interval}},
		"two beats":                 {{0, interval}, {15 * time.Second, interval}},
		"padding":                   {{0, interval + interval + interval + interval}},
		"comments that precede":     {{time.Second, interval + data}, {time.Second, interval + data}, {time.Second, interval + data}, {time.Second, interval + data}},
		"padding, then a long wait": {{0, interval + interval + interval}, {time.Minute, interval}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if after, err := silentAfter(t, all...); err != io.EOF || after != time.Hour {
				t.Errorf("%s: after %v: %v", name, after, err)
			}
		})
	}
}

// The longest gap counts, and what comes between beats is as good as one.
func TestABeatMayVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, interval}, scripted{2 * time.Second, interval}, scripted{10 * time.Second, interval},
			scripted{25 * time.Second, data}, scripted{29 * time.Second, interval})
		var silent *call.SilentError
		if !errors.As(err, &silent) || after != 30*time.Second {
			t.Errorf("after %v: %v", after, err)
		}
	})
}

// An event that takes long to arrive is no silence.
func TestALargeEventOnASlowNetworkIsALifeSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		part := scripted{4 * time.Second, strings.Repeat("x", 10)}
		after, err := silentAfter(t, scripted{0, interval}, scripted{time.Second, interval}, scripted{time.Second, interval},
			scripted{time.Second, "data: "}, part, part, part, scripted{time.Second, "\n"}, scripted{4 * time.Second, "\n"})
		var silent *call.SilentError
		if !errors.As(err, &silent) || silent.For != minSilence || after != minSilence {
			t.Errorf("after %v: %v", after, err)
		}
	})
}
