package legacy

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// minSilence is the minimum time without a message before a client counts as lost.
const minSilence = 10 * time.Second

// Pinger checks whether a session's client is alive (2025-11-25, basic/utilities/ping). It has neither a timer nor a
// goroutine: the transport calls Next periodically. It is not safe for concurrent use.
type Pinger struct {
	session    *Session
	maxSilence time.Duration
	received   uint64    // messages received before the last call of Next
	pinged     bool      // the last call of Next returned a ping
	since      time.Time // when the first unanswered ping was sent; zero if there is none
	activity   uint64    // the last known version of the activity record
}

// NewPinger returns a Pinger whose Next is called with this period. The client is lost if
// it sends nothing for two periods, and for at least 10 seconds, although it was pinged.
func (s *Session) NewPinger(every time.Duration) Pinger {
	return Pinger{session: s, maxSilence: max(2*every, minSilence), received: s.received.Load()}
}

// Next returns the ping to send now, or nil. It does not ping a client that sends other
// messages, or one that has an input request to answer: some clients do nothing else until
// their user answers. The error is a *call.SilentError if the client is lost.
func (p *Pinger) Next(ctx context.Context) (ping []byte, lost error) {
	s := p.session
	received := s.received.Load()
	n := received - p.received
	p.received = received
	pinged := p.pinged
	p.pinged = false
	awaiting := s.inputRequests.waiting()
	if n > 0 || awaiting {
		p.since = time.Time{}
	}
	if awaiting || n > 1 || n == 1 && !pinged { // a single message is the response to the ping
		return nil, nil
	}
	now := time.Now()
	switch {
	case p.since.IsZero():
		p.since = now
	case now.Sub(p.since) < p.maxSilence:
	case s.stored != nil && s.stored.activeElsewhere(ctx, &p.activity):
		p.since = now
	default:
		return nil, &call.SilentError{After: now.Sub(p.since)}
	}
	p.pinged = true
	id := s.inputRequests.ids.Add(1)
	s.lastPing.Store(id)
	return jsonrpc.AppendRequest(nil, jsonrpc.IntID(id), mcp.MethodPing, nil), nil
}

// isPong reports whether a response is the response to the last ping.
func (s *Session) isPong(m *jsonrpc.Message) bool {
	id := s.lastPing.Load()
	return id != 0 && m.ID == jsonrpc.IntID(id)
}

// activityTTL is how long other replicas know that a client has answered.
const activityTTL = 5 * time.Minute

func (ss *StoredSession) activityKey() string { return ss.key + "/heard" }

// RecordActivity records in the store that the client has sent a response to another replica's request.
func (ss *StoredSession) RecordActivity(ctx context.Context) {
	// without the record, other replicas ping again
	_, _ = ss.sessions.store.Put(ctx, ss.activityKey(), []byte{'1'}, store.PutOptions{TTL: activityTTL})
}

// activeElsewhere reports whether another replica has recorded activity since the known
// version. It reports true if the store fails, so that a failing store ends no session.
func (ss *StoredSession) activeElsewhere(ctx context.Context, version *uint64) bool {
	item, err := ss.sessions.store.Get(ctx, ss.activityKey())
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	known := *version
	*version = item.Version
	return item.Version != known
}
