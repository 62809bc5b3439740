package httpwire

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Streams are the streams of sessions that have not ended: each belongs to a request
// that is being served, or is the standalone stream of a session. What they have sent
// is in a log, from where those that have ended are revived.
type Streams struct {
	log    store.Log
	logger *slog.Logger

	mu       sync.Mutex
	closed   bool
	sessions map[string]map[string]*sessionStream // by group, by name
}

// NewStreams keeps what streams send in log.
func NewStreams(log store.Log, logger *slog.Logger) *Streams {
	return &Streams{log: log, logger: logger, sessions: make(map[string]map[string]*sessionStream)}
}

// groupOf is the group of a session's streams. Key is that of the session in the
// store, which begins with the principal.
func groupOf(key string) string { return key + "/streams" }

// storeTimeout bounds what is asked of the store for no request in particular.
const storeTimeout = 5 * time.Second

// add makes a stream and lets it be found. Conn may be nil.
func (a *Streams) add(group string, kind byte, f *feed, conn *eventStream) *sessionStream {
	s := &sessionStream{
		all: a, key: store.StreamKey{Group: group, Stream: newStreamName(kind)},
		sendLock: make(chan struct{}, 1), done: make(chan struct{}), feed: f, conn: conn,
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(s)
	return s
}

// put is called with mu held.
func (a *Streams) put(s *sessionStream) {
	streams := a.sessions[s.key.Group]
	if streams == nil {
		streams = make(map[string]*sessionStream)
		a.sessions[s.key.Group] = streams
	}
	streams[s.key.Stream] = s
}

func (a *Streams) remove(s *sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	streams := a.sessions[s.key.Group]
	if streams[s.key.Stream] != s {
		return
	}
	if delete(streams, s.key.Stream); len(streams) == 0 {
		delete(a.sessions, s.key.Group)
	}
}

// find returns a stream that has not ended, or one that may be revived, if something
// of it is held. Of a standalone stream that has ended nothing is to be had: nobody
// knows what its client has missed since.
func (a *Streams) find(ctx context.Context, group, name string, seq uint64) (*sessionStream, error) {
	a.mu.Lock()
	s := a.sessions[group][name]
	a.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = &sessionStream{
		all: a, key: store.StreamKey{Group: group, Stream: name},
		sendLock: make(chan struct{}, 1), done: make(chan struct{}), replay: true, ended: true,
	}
	close(s.done)
	if _, err := s.eventsAfter(ctx, seq); err != nil {
		return nil, err
	}
	if name[0] == kindGet {
		return nil, store.ErrPurged
	}
	// It can be found now, so that whoever comes next takes over.
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.sessions[group][name]; other != nil {
		return other, nil
	}
	a.put(s)
	return s, nil
}

func (a *Streams) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// endTakenOver ends the standalone streams of a session that another has taken over,
// those whose client is away included. What has just begun stays: it may be newer than
// whoever calls.
func (a *Streams) endTakenOver(group string) {
	for _, s := range a.standalone(group) {
		select {
		case <-s.feed.taken:
			s.end()
		default:
		}
	}
}

// standalone returns the standalone streams of a session.
func (a *Streams) standalone(group string) (all []*sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sessions[group] {
		if s.feed != nil {
			all = append(all, s)
		}
	}
	return all
}

func (a *Streams) append(key store.StreamKey, seq uint64, entry []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return a.log.Append(ctx, key, seq, entry, store.AppendOptions{TTL: logTTL, MaxEntries: maxLoggedEvents, MaxBytes: maxLoggedBytes})
}

func (a *Streams) drop(group string) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := a.log.Drop(ctx, group); err != nil {
		a.logger.Warn("the events of a session that has ended are kept until they expire", "error", err)
	}
}

// endSession ends the streams of a session, and forgets what was held of them.
func (a *Streams) endSession(group string) {
	a.mu.Lock()
	streams := a.sessions[group]
	delete(a.sessions, group)
	a.mu.Unlock()
	for _, s := range streams {
		s.mu.Lock()
		s.dropped = true
		s.mu.Unlock()
		s.end()
	}
	a.drop(group)
}

// close ends the standalone streams, and those yet to come as soon as their client is
// away: nobody comes back to a server that shuts down.
func (a *Streams) close() {
	a.mu.Lock()
	a.closed = true
	var all []*sessionStream
	for _, streams := range a.sessions {
		for _, s := range streams {
			if s.feed != nil {
				all = append(all, s)
			}
		}
	}
	a.mu.Unlock()
	for _, s := range all {
		s.end()
	}
}
