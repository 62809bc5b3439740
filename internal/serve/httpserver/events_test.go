package httpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
)

// reader is a ResponseWriter whose client can be slow and can disconnect.
type reader struct {
	header http.Header

	mu        sync.Mutex
	status    int
	writes    [][]byte
	flushes   int
	deadlines []time.Time
	fail      error         // the error of Write
	slow      chan struct{} // Write waits until it is closed or the deadline is over
	expired   chan struct{} // closed when the deadline is in the past
	panics    bool
}

func newReader() *reader { return &reader{header: make(http.Header), expired: make(chan struct{})} }

// slowReader returns a reader whose Write blocks until slow is closed.
func slowReader() *reader {
	r := newReader()
	r.slow = make(chan struct{})
	return r
}

func (r *reader) Header() http.Header { return r.header }

func (r *reader) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	slow, expired := r.slow, r.expired
	r.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-expired:
			return 0, errors.New("deadline exceeded")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		panic("odd")
	}
	if r.fail != nil {
		return 0, r.fail
	}
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func (r *reader) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
	return nil
}

func (r *reader) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadlines = append(r.deadlines, t)
	if !t.IsZero() && t.Before(time.Now()) {
		select {
		case <-r.expired:
		default:
			close(r.expired)
		}
	}
	return nil
}

func (r *reader) begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(bytes.Join(r.writes, nil))
}

func (r *reader) count() (writes, flushes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes), r.flushes
}

func TestEventStreamBeginsWithTheFirstMessage(t *testing.T) {
	w := newReader()
	w.header.Set("Content-Length", "7")
	e := &eventStream{w: w, ctx: t.Context()}
	must.CheckEqual(t, w.begun(), 0)
	must.Do(t, e.Write(t.Context(), []byte(`{"a":1}`)))
	e.end()
	if got := w.text(); got != "event: message\ndata: {\"a\":1}\n\n" || w.begun() != 200 {
		t.Errorf("%d, %q", w.begun(), got)
	}
	// Rule T23: headers tell proxies not to buffer events.
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no",
		"Cache-Control": "no-cache, no-transform", "Content-Length": ""} {
		must.CheckEqual(t, w.header.Get(name), want, name)
	}
}

// Events that are queued during a write are sent with one write, in order.
func TestQueuedEventsAreSentInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slowReader()
		e := &eventStream{w: w, ctx: t.Context()}
		var want strings.Builder
		for i := range 1000 {
			must.Do(t, e.Write(t.Context(), fmt.Append(nil, i)))
			fmt.Fprintf(&want, "event: message\ndata: %d\n\n", i)
			if i == 0 {
				synctest.Wait() // the first event is being written
			}
		}
		close(w.slow)
		e.end()
		got := w.text()
		must.CheckEqual(t, got, want.String(), len(got), "bytes arrived", want.Len())
		writes, flushes := w.count()
		must.CheckThat(t, writes == 2 && flushes == 2, "%d writes, %d flushes", writes, flushes)
	})
}

// Write waits when a megabyte is queued for a slow reader, until the reader continues or
// the context ends.
func TestWriteWaitsForSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slowReader()
		e := &eventStream{w: w, ctx: t.Context()}
		message := bytes.Repeat([]byte("x"), 100<<10)
		ctx, cancel := context.WithCancelCause(t.Context())
		written, result := 1, make(chan error)
		must.Do(t, e.Write(ctx, message))
		synctest.Wait() // the first event is being written
		go func() {
			for {
				if err := e.Write(ctx, message); err != nil {
					result <- err
					return
				}
				written++
			}
		}()
		synctest.Wait()
		if bytes := (written - 1) * len(message); bytes < maxQueued-len(message) || bytes > maxQueued+len(message) {
			t.Errorf("%d bytes are queued", bytes)
		}
		why := errors.New("the user changed their mind")
		cancel(why)
		must.CheckIs(t, <-result, why)
		waiting := make(chan error)
		go func() { waiting <- e.Write(t.Context(), message) }()
		synctest.Wait()
		close(w.slow)
		must.Check(t, <-waiting)
		e.end()
		must.CheckEqual(t, strings.Count(w.text(), "data: "), written+1)
	})
}

func TestNothingIsWrittenAfterEnd(t *testing.T) {
	w := newReader()
	e := &eventStream{w: w, ctx: t.Context()}
	_ = e.Write(t.Context(), []byte("a"))
	e.end()
	before := w.text()
	must.CheckIs(t, e.Write(t.Context(), []byte("b")), call.ErrCallDone)
	e.end()
	must.Check(t, e.Broken(), "Broken after end")
	must.CheckEqual(t, w.text(), before)
}

// Rule T23: the response to a slow call has keep-alive comments.
func TestIdleStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		e := &eventStream{w: w, ctx: t.Context()}
		var requests tracker
		f := track(&requests, e, 15*time.Second)
		time.Sleep(15*time.Second - 1)
		synctest.Wait()
		if w.text() != "" || w.begun() != 0 {
			t.Errorf("early: %q", w.text())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := w.text()
		must.CheckThat(t, got == ":\n" && w.header.Get("Content-Type") == "text/event-stream", "%q", got)
		time.Sleep(45 * time.Second)
		synctest.Wait()
		must.CheckEqual(t, w.text(), strings.Repeat(":\n", 4))
		requests.leave(f)
		e.end()
		time.Sleep(time.Minute)
		must.CheckEqual(t, w.text(), strings.Repeat(":\n", 4))
	})
}

func TestJSONResponseIsNotKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		e := &eventStream{w: w, ctx: t.Context()}
		var requests tracker
		track(&requests, e, time.Second)
		must.CheckThat(t, !e.claim(), "the event stream has begun")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.text() != "" || w.begun() != 0 {
			t.Errorf("%q", w.text())
		}
		e.end()
	})
}

// Each write has a deadline of 30 seconds, and so has the end of the response, which net/http
// writes.
func TestEachWriteHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		e := &eventStream{w: w, ctx: t.Context()}
		_ = e.Write(t.Context(), []byte("a"))
		synctest.Wait()
		first := time.Now().Add(writeTimeout)
		time.Sleep(time.Hour)
		e.end()
		want := []time.Time{first, time.Now().Add(writeTimeout)}
		must.CheckEqual(t, fmt.Sprint(w.deadlines), fmt.Sprint(want), w.deadlines, want)
	})
}

// bare is a ResponseWriter without the optional methods, as some middleware has.
type bare struct{ http.ResponseWriter }

func TestResponseWriterWithoutFlushReceivesEverything(t *testing.T) {
	w := newReader()
	e := &eventStream{w: bare{w}, ctx: t.Context(), broken: cancelFunc(func(err error) { t.Errorf("broken: %v", err) })}
	for range 3 {
		must.Check(t, e.Write(t.Context(), []byte("a")))
	}
	e.end()
	if got := strings.Count(w.text(), "data: a\n\n"); got != 3 {
		t.Errorf("%q", w.text())
	}
}

func TestPanicInResponseWriterIsAnError(t *testing.T) {
	w := newReader()
	w.panics = true
	broke := make(chan error, 1)
	e := &eventStream{w: w, ctx: t.Context(), broken: cancelFunc(func(err error) { broke <- err })}
	_ = e.Write(t.Context(), []byte("a"))
	must.CheckFails(t, <-broke, "odd")
	e.end()
}

func TestConcurrentWritesDoNotMixEvents(t *testing.T) {
	w := newReader()
	e := &eventStream{w: w, ctx: t.Context()}
	var writing sync.WaitGroup
	for i := range 16 {
		writing.Go(func() {
			for j := range 50 {
				must.Check(t, e.Write(t.Context(), fmt.Appendf(nil, "%d.%d", i, j)))
			}
		})
	}
	writing.Wait()
	e.end()
	next := make(map[string]int)
	for _, line := range strings.Split(strings.TrimSuffix(w.text(), "\n\n"), "\n\n") {
		var who string
		var n int
		must.Do(t, must.Err(fmt.Sscanf(strings.Replace(line, ".", " ", 1), "event: message\ndata: %s %d", &who, &n)))
		must.That(t, n == next[who], "%q after %d", line, next[who])
		next[who]++
	}
	must.CheckEqual(t, len(next), 16, next)
}

func TestOpenStreamKeepsNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		e := &eventStream{w: w, ctx: t.Context()}
		_ = e.Write(t.Context(), make([]byte, 1<<20))
		synctest.Wait()
		must.CheckThat(t, e.queue == nil, "the stream has a buffer after its queue was sent")
		e.end()
	})
}
