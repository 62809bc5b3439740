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

// leastPatience is how long a client may be silent at least before it is lost, however
// often it is pinged.
const minSilence = 10 * time.Second

// Pulse finds out whether a session's client is there (2025-11-25,
// basic/utilities/ping). Whoever carries what the server says by itself beats it, every
// so often: it needs neither a timer nor a goroutine. Not safe for concurrent use.
type Pinger struct {
	session    *Session
	maxSilence time.Duration
	received   uint64    // what had been heard of the client by the last beat
	asked      bool      // at the last beat
	since      time.Time // when it was asked first of those times that nothing came; zero: something has
	activity   uint64    // the newest version of the session's mark that is known
}

// Pulse returns the pulse of the session's client, to be beaten so often. The client is
// lost when nothing has come of it for twice as long, while it was asked, and for 10
// seconds at least.
func (s *Session) NewPinger(every time.Duration) Pinger {
	return Pinger{session: s, maxSilence: max(2*every, minSilence), received: s.received.Load()}
}

// Beat returns the ping that is to be sent now, or nil: whoever talks need not be asked,
// and whoever has been asked something else is left in peace, since some clients do
// nothing else until their user has answered. The error is a *call.SilentError: the
// client is lost.
func (p *Pinger) Next(ctx context.Context) (ping []byte, lost error) {
	s := p.session
	heard := s.received.Load()
	came := heard - p.received
	p.received = heard
	asked := p.asked
	p.asked = false
	questioned := s.inputRequests.waiting()
	if came > 0 || questioned {
		p.since = time.Time{}
	}
	if questioned || came > 1 || came == 1 && !asked { // one is the answer
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
		return nil, &call.SilentError{For: now.Sub(p.since)}
	}
	p.asked = true
	id := s.inputRequests.ids.Add(1)
	s.lastPing.Store(id)
	return jsonrpc.AppendRequest(nil, jsonrpc.IntID(id), mcp.MethodPing, nil), nil
}

// isPong reports whether a response is the answer to a ping.
func (s *Session) isPong(m *jsonrpc.Message) bool {
	id := s.lastPing.Load()
	return id != 0 && m.ID == jsonrpc.IntID(id)
}

// markFor is how long it stays known that a client has answered elsewhere.
const activityTTL = 5 * time.Minute

func (l *StoredSession) activityKey() string { return l.key + "/heard" }

// HeardHere notes for other replicas that the client has answered something that nobody
// has asked here: one of them may be waiting to hear of it.
func (l *StoredSession) RecordActivity(ctx context.Context) {
	_, _ = l.sessions.store.Put(ctx, l.activityKey(), []byte{'1'}, store.PutOptions{TTL: activityTTL}) // or else they hear nothing
}

// heardElsewhere reports whether another replica has heard of the client since the mark
// that is known. While the store fails nobody is lost.
func (l *StoredSession) activeElsewhere(ctx context.Context, mark *uint64) bool {
	item, err := l.sessions.store.Get(ctx, l.activityKey())
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	known := *mark
	*mark = item.Version
	return item.Version != known
}

// Lost has the session end after a while unless somebody uses it, on whichever replica:
// its client does not answer, but may only have lost its connection. A client that has
// requests in flight has the usual time to come back for their answers (2025-11-25,
// basic/transports: a disconnect is no cancellation).
func (l *StoredSession) ExpireSoon(ctx context.Context, while time.Duration) {
	if l.inflight.Len() > 0 {
		return
	}
	item, err := l.sessions.store.Get(ctx, l.key)
	if err != nil {
		return // it has ended, or will when it has been idle
	}
	l.sessions.mu.Lock()
	while = min(while, l.ttl())
	l.sessions.mu.Unlock()
	version, err := l.sessions.store.Put(ctx, l.key, item.Value, store.PutOptions{TTL: while, IfVersion: item.Version})
	if err == nil {
		l.setVersion(item.Version, version)
	}
}

// keep notes the version that the state in the store has now.
func (l *StoredSession) setVersion(before, now uint64) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	if l.version == before { // or else the next Open finds what is new beside
		l.version = now
	}
}
