package streamwire

import (
	"sync"
	"sync/atomic"
	"time"
)

// patience is the time after which a request no longer stops the reading. The reading goes on
// after at most twice this time.
const patience = time.Millisecond

// watchdog ends the turn of a goroutine that is busy for too long. It looks at each period of
// patience, not at each request, because a timer for each request would cost more than the
// request. It sleeps while no requests arrive.
type watchdog struct {
	c       *connection
	running atomic.Bool // the timer is set

	mu     sync.Mutex
	timer  *time.Timer // nil until needed
	closed bool
	turn   *turn // that the watchdog has seen last
	state  uint64
}

// start starts the watchdog unless it is running.
func (w *watchdog) start() {
	if w.running.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.running.Load():
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(patience, w.look)
	default:
		w.timer.Reset(patience)
	}
	w.running.Store(true)
}

// look ends the turn if its goroutine has been busy with the same request since the last look.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	t := w.c.turn.Load()
	state := t.state.Load()
	seen := t == w.turn && state == w.state
	w.turn, w.state = t, state
	switch {
	case seen && state&1 == 1:
		t.end(state)
	case seen:
		w.running.Store(false)
		if t.state.Load() == state { // else a request has begun and has seen the watchdog run
			return
		}
		w.running.Store(true)
	}
	w.timer.Reset(patience)
}

// close stops the watchdog.
func (w *watchdog) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
