package httpwire

import (
	"io"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
)

// beats watches over an event stream that its server keeps alive with comments, as
// servers are encouraged to (2026-07-28, basic/transports/streamable-http). Nobody says
// how often, or whether at all: so only a server that has shown its beat, by comments in
// a row, is missed when it stops. A connection that is half open is found out in that
// way; nothing else would tell, for as long as there is nothing to send on it.
type silenceMonitor struct {
	body io.Closer

	mu      sync.Mutex
	last    time.Time     // when a comment or an event came
	arrived time.Time     // when anything did; noted only once the beat is known
	longest time.Duration // between two comments with nothing else between them
	row     int           // comments in a row
	seen    int           // gaps that longest is of
	timer   *time.Timer   // nil until the beat is known
	silent  time.Duration // after which the stream was given up; 0 while it is not
	over    bool
}

const (
	// beatsKnown is after how many gaps the beat is known.
	minGaps = 2
	// leastBeat is the shortest gap that counts. Comments that come at once are no beat:
	// some servers fill buffers with them.
	minGap = time.Second
	// beatsMissed is how many beats may be missed, and leastSilence the silence that any
	// stream may keep.
	missedComments = 3
	minSilence     = 5 * time.Second
)

// comment notes a comment.
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
	m.heard(now)
}

// event notes anything else.
func (m *silenceMonitor) event() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row = 0
	m.heard(time.Now())
}

// bytes notes that something has arrived, of an event perhaps that takes long to.
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

// heard is called with mu held.
func (m *silenceMonitor) heard(now time.Time) {
	m.last = now
	if m.seen >= minGaps {
		m.await(now)
	}
}

// await begins to wait for the next sign of life. It is called with mu held.
func (m *silenceMonitor) await(now time.Time) {
	if m.over {
		return
	}
	m.arrived = now
	patience := max(missedComments*m.longest, minSilence)
	if m.timer == nil {
		m.timer = time.AfterFunc(patience, m.miss)
	} else if m.timer.Stop() {
		m.timer.Reset(patience)
	}
}

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

// end ends the watch. It returns the error that the stream has ended with, which is
// that it fell silent if it was given up for that.
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
		return &call.SilentError{For: m.silent}
	}
	return err
}
