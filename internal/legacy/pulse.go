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
const leastPatience = 10 * time.Second

// Pulse finds out whether a session's client is there (2025-11-25,
// basic/utilities/ping). Whoever carries what the server says by itself beats it, every
// so often: it needs neither a timer nor a goroutine. Not safe for concurrent use.
type Pulse struct {
	session  *Session
	patience time.Duration
	heard    uint64    // what had been heard of the client by the last beat
	asked    bool      // at the last beat
	since    time.Time // when it was asked first of those times that nothing came; zero: something has
	mark     uint64    // the newest version of the session's mark that is known
}

// Pulse returns the pulse of the session's client, to be beaten so often. The client is
// lost when nothing has come of it for twice as long, while it was asked, and for 10
// seconds at least.
func (s *Session) Pulse(every time.Duration) Pulse {
	return Pulse{session: s, patience: max(2*every, leastPatience), heard: s.heard.Load()}
}

// Beat returns the ping that is to be sent now, or nil: whoever talks need not be asked,
// and whoever has been asked something else is left in peace, since some clients do
// nothing else until their user has answered. The error is a *call.SilentError: the
// client is lost.
func (p *Pulse) Beat(ctx context.Context) (ping []byte, lost error) {
	s := p.session
	heard := s.heard.Load()
	came := heard - p.heard
	p.heard = heard
	asked := p.asked
	p.asked = false
	questioned := s.asks.waiting()
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
	case now.Sub(p.since) < p.patience:
	case s.kept != nil && s.kept.heardElsewhere(ctx, &p.mark):
		p.since = now
	default:
		return nil, &call.SilentError{For: now.Sub(p.since)}
	}
	p.asked = true
	id := s.asks.ids.Add(1)
	s.pinged.Store(id)
	return jsonrpc.AppendRequest(nil, jsonrpc.IntID(id), mcp.MethodPing, nil), nil
}

// isPong reports whether a response is the answer to a ping.
func (s *Session) isPong(m *jsonrpc.Message) bool {
	id := s.pinged.Load()
	return id != 0 && m.ID == jsonrpc.IntID(id)
}

// markFor is how long it stays known that a client has answered elsewhere.
const markFor = 5 * time.Minute

func (l *Live) markKey() string { return l.key + "/heard" }

// HeardHere notes for other replicas that the client has answered something that nobody
// has asked here: one of them may be waiting to hear of it.
func (l *Live) HeardHere(ctx context.Context) {
	_, _ = l.all.store.Put(ctx, l.markKey(), []byte{'1'}, store.PutOptions{TTL: markFor}) // or else they hear nothing
}

// heardElsewhere reports whether another replica has heard of the client since the mark
// that is known. While the store fails nobody is lost.
func (l *Live) heardElsewhere(ctx context.Context, mark *uint64) bool {
	item, err := l.all.store.Get(ctx, l.markKey())
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
func (l *Live) Lost(ctx context.Context, while time.Duration) {
	if l.inflight.Len() > 0 {
		return
	}
	item, err := l.all.store.Get(ctx, l.key)
	if err != nil {
		return // it has ended, or will when it has been idle
	}
	l.all.mu.Lock()
	while = min(while, l.ttl())
	l.all.mu.Unlock()
	version, err := l.all.store.Put(ctx, l.key, item.Value, store.PutOptions{TTL: while, IfVersion: item.Version})
	if err == nil {
		l.keep(item.Version, version)
	}
}

// keep notes the version that the state in the store has now.
func (l *Live) keep(before, now uint64) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.version == before { // or else the next Open finds what is new beside
		l.version = now
	}
}
