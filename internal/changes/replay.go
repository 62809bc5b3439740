package changes

import (
	"sync"
	"time"

	"github.com/parley-mcp/parley/principal"
)

const (
	// replayTime is how long the replicas may take to announce a change to each other while a stream moves between
	// them.
	replayTime = 250 * time.Millisecond
	// maxRecent limits the changes of this time. Further ones are not replayed.
	maxRecent = 1024
)

// recentChanges holds the changes of the last replayTime. The zero value holds none. It is safe for concurrent use.
type recentChanges struct {
	mu  sync.Mutex
	all []recentChange // the oldest first
}

type recentChange struct {
	change  Change
	visible func(principal.Principal) bool // see Broadcaster.PublishTo
	at      time.Time
}

func (r *recentChanges) add(visible func(principal.Principal) bool, c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.forget(now)
	if len(r.all) < maxRecent {
		r.all = append(r.all, recentChange{c, visible, now})
	}
}

// forget drops the changes that are too old. The caller holds mu.
func (r *recentChanges) forget(now time.Time) {
	n := 0
	for n < len(r.all) && now.Sub(r.all[n].at) > replayTime {
		n++
	}
	if n > 0 {
		r.all = append(r.all[:0:0], r.all[n:]...)
	}
}

// Replay records the changes of the last moments in a subscription that continues one of another replica. The other
// replica may not have recorded them, because it had not received their announcements when it stopped.
func (h *Broadcaster) Replay(s *Subscription) {
	h.recent.mu.Lock()
	h.recent.forget(time.Now())
	all := append([]recentChange(nil), h.recent.all...)
	h.recent.mu.Unlock()
	for _, r := range all {
		if r.visible == nil || r.visible(s.subscriber) {
			s.Record(r.change)
		}
	}
}
