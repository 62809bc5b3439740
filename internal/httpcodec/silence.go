package httpcodec

import (
	"io"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
)

// silenceMonitor closes an event stream whose keep-alive comments stop. It detects half-open connections on which
// nothing is sent. Servers should send comments, but the specification gives no interval (2026-07-28,
// basic/transports/streamable-http). Therefore the monitor learns the interval from successive comments, and ignores
// streams without them. A nil silenceMonitor does nothing. It is safe for concurrent use.
type silenceMonitor struct {
	body io.Closer

	mu      sync.Mutex
	last    time.Time     // when the last comment or event arrived
	arrived time.Time     // when the last bytes arrived; set once the interval is known
	longest time.Duration // longest interval between successive comments
	row     int           // successive comments since the last event
	seen    int           // number of intervals measured so far
	timer   *time.Timer   // nil until the interval is known
	silent  time.Duration // how long the stream was silent when miss closed it; 0 if it did not
	over    bool
}

const (
	// minGaps is how many gaps between comments are needed to know the interval.
	minGaps = 2
	// minGap is the shortest gap that counts. Some servers send several comments at once to fill buffers.
	minGap = time.Second
	// missedComments is how many intervals may pass without a comment before the monitor closes the stream.
	missedComments = 3
	// minSilence is the shortest silence for which the monitor closes a stream.
	minSilence = 5 * time.Second
)

// comment records a comment.
func (m *silenceMonitor) comment() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	gap := now.Sub(m.last)
	if m.row++; m.row > 1 && gap >= minGap {
		m.longest = max(m.longest, gap)
		m.seen++
	}
	m.restart(now)
}

// event records an event.
func (m *silenceMonitor) event() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row = 0
	m.restart(time.Now())
}

// bytes records that bytes have arrived, which may be part of a slow event.
func (m *silenceMonitor) bytes() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen >= minGaps {
		m.await(time.Now())
	}
}

// restart records a comment or an event and restarts the timer. The caller holds mu.
func (m *silenceMonitor) restart(now time.Time) {
	m.last = now
	if m.seen >= minGaps {
		m.await(now)
	}
}

// await sets the timer for the next comment. The caller holds mu.
func (m *silenceMonitor) await(now time.Time) {
	if m.over {
		return
	}
	m.arrived = now
	timeout := max(missedComments*m.longest, minSilence)
	if m.timer == nil {
		m.timer = time.AfterFunc(timeout, m.miss)
	} else if m.timer.Stop() {
		m.timer.Reset(timeout)
	}
}

// miss closes the stream.
func (m *silenceMonitor) miss() {
	m.mu.Lock()
	over := m.over
	if !over {
		m.silent, m.over = time.Since(m.arrived), true
	}
	m.mu.Unlock()
	if !over {
		m.body.Close()
	}
}

// end stops the monitor. It returns a *call.SilentError if the monitor has closed the stream, and otherwise err.
func (m *silenceMonitor) end(err error) error {
	if m == nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.silent > 0 {
		return &call.SilentError{After: m.silent}
	}
	return err
}
