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
type beats struct {
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
	beatsKnown = 2
	// leastBeat is the shortest gap that counts. Comments that come at once are no beat:
	// some servers fill buffers with them.
	leastBeat = time.Second
	// beatsMissed is how many beats may be missed, and leastSilence the silence that any
	// stream may keep.
	beatsMissed  = 3
	leastSilence = 5 * time.Second
)

// comment notes a comment.
func (b *beats) comment() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	gap := now.Sub(b.last)
	if b.row++; b.row > 1 && gap >= leastBeat {
		b.longest = max(b.longest, gap)
		b.seen++
	}
	b.heard(now)
}

// event notes anything else.
func (b *beats) event() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row = 0
	b.heard(time.Now())
}

// bytes notes that something has arrived, of an event perhaps that takes long to.
func (b *beats) bytes() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen >= beatsKnown {
		b.await(time.Now())
	}
}

// heard is called with mu held.
func (b *beats) heard(now time.Time) {
	b.last = now
	if b.seen >= beatsKnown {
		b.await(now)
	}
}

// await begins to wait for the next sign of life. It is called with mu held.
func (b *beats) await(now time.Time) {
	if b.over {
		return
	}
	b.arrived = now
	patience := max(beatsMissed*b.longest, leastSilence)
	if b.timer == nil {
		b.timer = time.AfterFunc(patience, b.miss)
	} else if b.timer.Stop() {
		b.timer.Reset(patience)
	}
}

func (b *beats) miss() {
	b.mu.Lock()
	over := b.over
	if !over {
		b.silent, b.over = time.Since(b.arrived), true
	}
	b.mu.Unlock()
	if !over {
		b.body.Close()
	}
}

// end ends the watch. It returns the error that the stream has ended with, which is
// that it fell silent if it was given up for that.
func (b *beats) end(err error) error {
	if b == nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.silent > 0 {
		return &call.SilentError{For: b.silent}
	}
	return err
}
