package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// Streams is the registry of the open streams of sessions. A stream carries the response to a request, or is the
// standalone stream of a session. Events that were sent are in a log, from which a client can resume a stream, even one
// that has ended. Streams is safe for concurrent use.
type Streams struct {
	// Lease is the lease of this replica if other replicas log events in log, too, of streams that have not
	// ended; otherwise nil. It must be set before the first stream, and so must Notify.
	Lease *lease.Lease
	// Notify asks the replica of a stream to announce events if follow is set, and otherwise announces
	// an event to the other replicas. They call Follow and Wake. It must not block. It is nil if Lease is.
	Notify func(key store.StreamKey, follow bool)

	log        store.Log
	logger     *slog.Logger
	unreadable loglimit.Limiter

	mu       sync.Mutex
	closed   bool
	sessions map[string][]*sessionStream // by group, which is the key of the session; a session has few streams
	// unterminated contains the streams for TerminateStreams, with the number of the event that could not be logged.
	unterminated map[*sessionStream]uint64
}

// NewStreams returns a registry without streams, which stores events in log. The operations of
// log must not block for ever.
func NewStreams(log store.Log, logger *slog.Logger) *Streams {
	return &Streams{log: log, logger: logger, sessions: make(map[string][]*sessionStream)}
}

// add makes a stream for the answer to a request and registers it. The group is the key of the session in the
// store, which begins with the principal.
func (a *Streams) add(group string, conn *eventStream) *sessionStream {
	s := a.newStream(group, httpcodec.NewStreamName(httpcodec.KindPost))
	s.conn = conn
	if a.Lease != nil {
		s.origin = conn.answer.origin(a.Lease.ID())
		s.incomplete = s.origin == nil // otherwise other replicas could not end the stream with an error
	}
	a.register(s)
	return s
}

func (a *Streams) newStream(group, name string) *sessionStream {
	return &sessionStream{
		all: a, key: store.StreamKey{Group: group, Stream: name},
		sendLock: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// register adds s to the open streams.
func (a *Streams) register(s *sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(s)
}

// put is register. It replaces a stream with the same name. The caller holds mu.
func (a *Streams) put(s *sessionStream) {
	streams := a.sessions[s.key.Group]
	if i := indexOfStream(streams, s.key.Stream); i >= 0 {
		streams[i] = s
		return
	}
	a.sessions[s.key.Group] = append(streams, s)
}

// get returns the open stream with this name, or nil. The caller holds mu.
func (a *Streams) get(group, name string) *sessionStream {
	streams := a.sessions[group]
	if i := indexOfStream(streams, name); i >= 0 {
		return streams[i]
	}
	return nil
}

func indexOfStream(streams []*sessionStream, name string) int {
	return slices.IndexFunc(streams, func(s *sessionStream) bool { return s.key.Stream == name })
}

// remove removes s unless another stream has its name.
func (a *Streams) remove(s *sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delete(s)
}

// removeUnused is remove, unless another connection has taken over s.
func (a *Streams) removeUnused(s *sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.connection() == nil {
		a.delete(s)
	}
}

// putAgain registers s in case that removeUnused has removed it before its connection was set.
func (a *Streams) putAgain(s *sessionStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.get(s.key.Group, s.key.Stream) == nil {
		a.put(s)
	}
}

// delete is remove. The caller holds mu.
func (a *Streams) delete(s *sessionStream) {
	streams := a.sessions[s.key.Group]
	i := slices.Index(streams, s)
	switch {
	case i < 0:
	case len(streams) == 1:
		delete(a.sessions, s.key.Group)
	default:
		a.sessions[s.key.Group] = slices.Delete(streams, i, i+1)
	}
}

// find returns the stream with this name for a client that has received event seq. If the stream has ended and its log
// has the events after seq, find returns a stream that replays them. If another replica may still log events of the
// stream, find returns a stream that sends them, too. The error is that of entriesAfter; it is store.ErrPurged for a
// standalone stream that has ended, since later notifications are not in its log.
func (a *Streams) find(ctx context.Context, group, name string, seq uint64) (*sessionStream, error) {
	a.mu.Lock()
	s := a.get(group, name)
	a.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = a.newStream(group, name)
	s.replay, s.ended = true, true
	_, err := s.entriesAfter(ctx, seq)
	if errors.Is(err, errUnknownEvent) && a.Lease != nil && name[0] == httpcodec.KindPost {
		if err = s.terminateForClient(ctx, seq); err == nil {
			_, err = s.entriesAfter(ctx, seq)
		}
	}
	switch {
	case errors.Is(err, errNotFinal) && a.Lease != nil && name[0] == httpcodec.KindPost:
		s.follows, s.ended, s.wake = true, false, make(chan struct{}, 1)
	case err != nil:
		return nil, err
	default:
		close(s.done)
	}
	if name[0] == httpcodec.KindGet {
		return nil, store.ErrPurged
	}
	// Register it, so that the next connection of the client takes over.
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.get(group, name); other != nil {
		return other, nil
	}
	a.put(s)
	return s, nil
}

// resume makes conn the connection of the stream with this name; see find and sessionStream.resume.
func (a *Streams) resume(ctx context.Context, group, name string, seq uint64, conn *eventStream) (s *sessionStream,
	connDone <-chan struct{}, err error) {
	s, err = a.find(ctx, group, name, seq)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if connDone == nil && s.replay {
			a.removeUnused(s)
		}
	}()
	connDone, err = s.resume(ctx, seq, conn)
	if err == nil && s.follows {
		a.putAgain(s)
	}
	return s, connDone, err
}

func (a *Streams) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// endTakenOver ends the standalone streams of a session that a newer stream has taken over, including those without a
// connection. It does not end streams that are newer than the caller's.
func (a *Streams) endTakenOver(group string) {
	for _, s := range a.standalone(group) {
		if s.feed.isTaken() {
			s.end()
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

// append stores an event. It belongs to no request: the stream outlives its connection.
func (a *Streams) append(key store.StreamKey, seq uint64, entry []byte) error {
	return a.log.Append(context.Background(), key, seq, entry, appendOptions)
}

// read returns the log of a stream after entry seq. Entries that are not of this program are as if they were purged.
func (a *Streams) read(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := a.log.ReadAfter(ctx, key, seq)
	if err == nil && slices.ContainsFunc(entries, func(e []byte) bool { return !entry(e).isValid() }) {
		err = fmt.Errorf("%w: entry of a stream must be one of this program", store.ErrInvalidArgument)
	}
	if !errors.Is(err, store.ErrInvalidArgument) {
		return entries, err
	}
	a.unreadable.Log(ctx, a.logger, slog.LevelError,
		"cannot read the log of a stream: programs that share a store need different prefixes", slog.Any("error", err))
	return nil, fmt.Errorf("%w: %w", store.ErrPurged, err)
}

var appendOptions = store.AppendOptions{TTL: logTTL, MaxEntries: maxLoggedEvents, MaxBytes: maxLoggedBytes}

// logOnly logs the only event of a stream of a request and returns the name of the stream.
// It reports false if the event cannot be logged.
func (a *Streams) logOnly(group string, message []byte) (name string, ok bool) {
	name = httpcodec.NewStreamName(httpcodec.KindPost)
	buf := rpc.NewBuffer()
	*buf = appendEntry(*buf, entryFinal, nil, message)
	err := a.append(store.StreamKey{Group: group, Stream: name}, 1, *buf)
	rpc.FreeBuffer(buf)
	if err != nil {
		a.logFailed(err)
	}
	return name, err == nil
}

func (a *Streams) logFailed(err error) {
	a.logger.Warn("cannot store an event: its stream can no longer be resumed", "error", err)
}

// drop deletes the events of a session.
func (a *Streams) drop(group string) {
	if err := a.log.Drop(context.Background(), group); err != nil {
		a.logger.Warn("cannot delete the events of an ended session: they remain until they expire", "error", err)
	}
}

// endSession ends the streams of a session and deletes their events. Logged says that the log may have events.
func (a *Streams) endSession(group string, logged bool) {
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
	if logged {
		a.drop(group)
	}
}

// close ends the standalone streams. A standalone stream that begins later ends when its
// connection does, since no client reconnects to a server that shuts down.
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
