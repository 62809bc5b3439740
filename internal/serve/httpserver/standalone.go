package httpserver

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/store"
)

// A client may resume the standalone stream of its session at another replica. That replica takes over the stream: it
// becomes its only writer and continues its numbers. The replica that had the stream ends it as soon as it knows, and
// hands over the notifications that it has not sent. Until then both may log events. Each finds events of the other
// because a number can be logged once only.

// feed is the session of a standalone stream and the queue of its notifications.
type feed struct {
	live          *legacy.StoredSession // released when the stream ends
	taken         <-chan struct{}       // closed when another standalone stream takes over
	notifications *legacy.NotificationQueue
}

// isTaken reports whether another standalone stream has taken over.
func (f *feed) isTaken() bool {
	select {
	case <-f.taken:
		return true
	default:
		return false
	}
}

// newStandalone makes a standalone stream, which the caller registers. The caller has begun the stream of the session.
func (a *Streams) newStandalone(ctx context.Context, name string, f *feed) *sessionStream {
	s := a.newStream(f.live.Key(), name)
	s.feed = f
	if a.Lease != nil && revision.ResumableStreams.In(f.live.Revision) {
		// Without the lease, a replica that takes over the stream assumes that this one has ended.
		s.leased = a.Lease.Take(ctx) == nil
	}
	return s
}

// listen starts the standalone stream of a session on conn. The stream keeps live open while
// the client can resume it, unless listen returns an error, which is that of live.Stream.
func (s *Server) listen(ctx context.Context, live *legacy.StoredSession, conn *eventStream) (stream *sessionStream,
	connDone <-chan struct{}, err error) {
	f, name := &feed{live: live}, httpcodec.NewStreamName(httpcodec.KindGet)
	if f.taken, f.notifications, err = live.Stream(ctx, name); err != nil {
		return nil, nil, err
	}
	s.Streams.endTakenOver(live.Key())
	stream = s.Streams.newStandalone(ctx, name, f)
	stream.incomplete = !revision.ResumableStreams.In(live.Revision)
	s.Streams.register(stream)
	conn.enqueue(func(dst []byte) []byte {
		if revision.StreamPolling.In(live.Revision) {
			return httpcodec.AppendPriming(dst, name, 0)
		}
		return httpcodec.AppendComment(dst)
	})
	return stream, stream.connect(conn), nil
}

// canTakeOver reports whether a stream is a standalone stream that this replica does not have, and may take over.
func (s *Server) canTakeOver(key store.StreamKey) bool {
	return key.Stream[0] == httpcodec.KindGet && s.Streams.Lease != nil && s.Sessions.Replicas != nil &&
		s.Streams.open(key) == nil
}

// takeOver continues the standalone stream of another replica after event seq. The stream keeps live open in the same
// way as that of listen. If takeOver returns an error, it has not sent a response. The error is that of entriesAfter or
// of the store.
func (s *Server) takeOver(ctx context.Context, live *legacy.StoredSession, conn *eventStream, name string,
	seq uint64) (stream *sessionStream, connDone <-chan struct{}, err error) {
	key := store.StreamKey{Group: live.Key(), Stream: name}
	_, expired, err := s.Streams.logged(ctx, key, seq)
	if err != nil {
		return nil, nil, err // before the stream of the other replica ends
	}
	f := &feed{live: live}
	f.taken, f.notifications, err = live.TakeOver(ctx, name)
	if errors.Is(err, legacy.ErrOtherStream) {
		if expired {
			return nil, nil, errUnknownEvent
		}
		return nil, nil, store.ErrPurged // notifications after the end are not logged
	}
	if err != nil {
		return nil, nil, err
	}
	entries, _, err := s.Streams.logged(ctx, key, seq)
	if err != nil {
		f.notifications.Close()
		return nil, nil, err
	}
	if expired && seq > 0 {
		f.notifications.Resync() // the number may be one that this server has not used
	}
	live.Retain()
	stream = s.Streams.newStandalone(ctx, name, f)
	stream.continueAfter(seq + uint64(len(entries)))
	s.Streams.register(stream)
	conn.enqueue(httpcodec.AppendComment)
	stream.sendLogged(conn, seq, entries)
	return stream, stream.connect(conn), nil
}

// logged returns the log of a standalone stream after event seq. Expired means that the log has no events of the
// stream: there were none, or they have expired. The error is errUnknownEvent, store.ErrPurged or that of the store.
func (a *Streams) logged(ctx context.Context, key store.StreamKey, seq uint64) (entries [][]byte, expired bool,
	err error) {
	entries, err = a.read(ctx, key, seq)
	if !errors.Is(err, store.ErrNotFound) {
		return entries, false, err
	}
	if seq > 0 {
		if _, err := a.read(ctx, key, 0); err == nil || errors.Is(err, store.ErrPurged) {
			return nil, false, errUnknownEvent
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, false, err
		}
	}
	return nil, true, nil
}

// continueAfter makes s continue the stream of another replica after event last. Call it before s is registered.
func (s *sessionStream) continueAfter(last uint64) {
	s.last, s.wake = last, make(chan struct{}, 1)
	s.wake <- struct{}{} // the other replica may have logged an event before s was registered
}

// sendNotifications sends and logs the queued notifications. ctx must not be that of a
// connection, since notifications taken from the queue must be logged.
func (s *sessionStream) sendNotifications(ctx context.Context) {
	for _, notification := range s.feed.notifications.Take() {
		if err := s.send(ctx, notification, entryMessage); errors.Is(err, errTakenOver) {
			s.feed.live.Notify(notification)
		}
	}
}

// maxCatchUps limits the attempts to log one event while another replica logs events of the same stream.
const maxCatchUps = 8

// catchUp sends the events that the replica has logged from which this one has taken over the stream. It returns the
// number of the next event. The error is errEndedElsewhere if another replica has taken over the stream from this one,
// or that of the store. The caller holds sendLock.
func (s *sessionStream) catchUp(ctx context.Context) (next uint64, err error) {
	newest, err := s.feed.live.HasNewestStream(ctx)
	if err != nil {
		return 0, err
	}
	if !newest {
		return 0, errEndedElsewhere
	}
	if err := s.readNew(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last + 1, nil
}

// readNew sends the events that another replica has logged. The caller holds sendLock.
func (s *sessionStream) readNew(ctx context.Context) error {
	s.mu.Lock()
	conn, last := s.conn, s.last
	s.mu.Unlock()
	entries, err := s.all.read(ctx, s.key, last)
	if errors.Is(err, store.ErrNotFound) { // nothing was logged
		return nil
	}
	if err != nil {
		return err
	}
	if conn != nil {
		s.sendLogged(conn, last, entries)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last + uint64(len(entries))
	return nil
}

// readAfterTakeOver sends the events that the replica logs that had the stream before.
func (s *sessionStream) readAfterTakeOver(ctx context.Context) {
	if s.lock(ctx) != nil {
		return
	}
	defer s.unlock()
	if err := s.readNew(ctx); err != nil && ctx.Err() == nil {
		s.all.logger.WarnContext(ctx,
			"cannot read the events of the replica that had the stream: they follow with the "+
				"next event", "error", err)
	}
}

// expire ends a standalone stream whose client does not reconnect.
func (s *sessionStream) expire() {
	s.feed.live.ForgetStream()
	s.end()
}

// endStandalone ends the part of a standalone stream that other streams do not have.
func (s *sessionStream) endStandalone() {
	if s.feed.isTaken() {
		s.feed.notifications.HandOver()
		s.all.notify(s.key, false) // this replica logs no more events
	} else {
		s.feed.notifications.Close()
	}
	s.feed.live.Release()
}
