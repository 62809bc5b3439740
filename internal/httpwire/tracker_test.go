package httpwire

import (
	"testing"
	"testing/synctest"
	"time"
)

// T23: one timer sends the keep-alive comments of streams that began at different times.
// It stops when there are no streams.
func TestT23TrackerKeepsEveryStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 16 * time.Second
		var requests tracker
		type one struct {
			w *reader
			f *trackedRequest
		}
		var all []one
		for range 3 {
			w := newReader()
			f := &trackedRequest{stream: &eventStream{w: w, ctx: t.Context()}}
			requests.watch(f, every)
			requests.watch(&trackedRequest{}, every) // a request without a stream
			all = append(all, one{w, f})
			time.Sleep(5*time.Second + time.Millisecond) // between two ticks
		}
		expect := func(when string, comments ...int) {
			t.Helper()
			synctest.Wait()
			for i, want := range comments {
				if got := len(all[i].w.text()) / len(":\n\n"); got != want {
					t.Errorf("%s: stream %d got %d comments, want %d", when, i, got, want)
				}
			}
		}
		expect("after 15 s", 0, 0, 0)
		time.Sleep(time.Second - 3*time.Millisecond)
		expect("after 16 s", 1, 0, 0)
		time.Sleep(5 * time.Second)
		expect("after 21 s", 1, 1, 0)
		requests.forget(all[1].f)
		time.Sleep(11 * time.Second)
		expect("after 32 s", 2, 1, 1)
		requests.forget(all[0].f)
		requests.forget(all[2].f)
		time.Sleep(every)
		expect("after the end", 2, 1, 1)
		requests.mu.Lock()
		if requests.armed {
			t.Error("the timer runs without a stream")
		}
		requests.mu.Unlock()

		w := newReader()
		requests.watch(&trackedRequest{stream: &eventStream{w: w, ctx: t.Context()}}, every)
		time.Sleep(every)
		synctest.Wait()
		if w.text() != ":\n\n" {
			t.Errorf("after the timer restarted: got %q", w.text())
		}
	})
}
