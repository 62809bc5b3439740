package httpserver

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/store"
)

// If an event of a call cannot be logged, its stream can no longer be resumed. The replica of the call logs an error as
// the last entry, so that a client that has resumed the stream at another replica receives the error, and does not wait
// for the response. It tries at once, and then each time it renews its lease, because the store may be out of reach.

const (
	// maxUnterminated limits the streams without a last entry, in one process. Followers of further streams wait until
	// the log expires.
	maxUnterminated = 1024
	// terminateTimeout limits the time for all of them, because the lease is renewed in the same goroutine.
	terminateTimeout = 2 * time.Second
)

// logFailure logs an error as the last entry after the entry failed could not be logged as number seq because of cause.
// It returns the number of the event that failed for the client, or 0 if it has none. The error is cause, nil if the
// log has the entry after all, or errEndedElsewhere if another replica has ended the stream. The caller holds sendLock.
func (s *sessionStream) logFailure(seq uint64, failed entry, cause error) (number uint64, err error) {
	// otherwise the client would wait twice as long for the event
	if err = cause; !errors.Is(cause, context.DeadlineExceeded) {
		err = s.terminate(context.Background(), seq)
	}
	if errors.Is(err, store.ErrConflict) {
		switch err = s.explain(seq, failed); {
		case err == nil:
			return seq, nil
		case errors.Is(err, errEndedElsewhere):
			return 0, err
		}
	}
	if err == nil {
		return 0, cause
	}
	s.all.terminateLater(s, seq)
	return seq, cause // the log may have the event: the client must not receive it again
}

// terminate logs an error as the last entry, with number seq.
func (s *sessionStream) terminate(ctx context.Context, seq uint64) error {
	last, err := entry(appendEntry(nil, entryMessage, s.origin, nil)).lostResponse(entryUnlogged)
	if err != nil {
		return err
	}
	if err := s.all.log.Append(ctx, s.key, seq, last, appendOptions); err != nil {
		return err
	}
	s.all.notify(s.key, false)
	return nil
}

// terminateLater makes TerminateStreams log the last entry of s, which has number seq or follows the entry with this
// number. The lease remains taken until then.
func (a *Streams) terminateLater(s *sessionStream, seq uint64) {
	if a.Lease.Take(context.Background()) != nil {
		return // without the lease, other replicas end the stream
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.unterminated) >= maxUnterminated {
		a.Lease.Release()
		return
	}
	if a.unterminated == nil {
		a.unterminated = make(map[*sessionStream]uint64)
	}
	a.unterminated[s] = seq
}

// TerminateStreams ends the streams with an event that could not be logged. Call it when the store is within reach.
func (a *Streams) TerminateStreams(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, terminateTimeout)
	defer cancel()
	a.mu.Lock()
	all := make(map[*sessionStream]uint64, len(a.unterminated))
	for s, seq := range a.unterminated {
		all[s] = seq
	}
	a.mu.Unlock()
	for s, seq := range all {
		if err := s.terminateAfter(ctx, seq); err != nil {
			return // the store is out of reach, or the time is over
		}
		a.mu.Lock()
		delete(a.unterminated, s)
		a.mu.Unlock()
		a.Lease.Release()
	}
}

// terminateAfter logs the last entry after the entries that the log has from number seq on, unless one of them is the
// last.
func (s *sessionStream) terminateAfter(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	dropped := s.dropped
	s.mu.Unlock()
	if dropped {
		return nil
	}
	err := s.terminate(ctx, seq)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	entries, err := s.all.read(ctx, s.key, seq-1)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrPurged):
		return nil // nothing can be resumed
	case err != nil:
		return err
	case len(entries) > 0 && entry(entries[len(entries)-1]).isLast():
		return nil
	}
	if err = s.terminate(ctx, seq+uint64(len(entries))); errors.Is(err, store.ErrConflict) {
		return nil // another replica has ended the stream
	}
	return err
}

// terminateForClient logs the last entry of a stream of another replica whose client has received event seq, if this
// event follows the last one in the log. It returns errUnknownEvent otherwise.
func (s *sessionStream) terminateForClient(ctx context.Context, seq uint64) error {
	if seq < 2 {
		return errUnknownEvent
	}
	entries, err := s.all.read(ctx, s.key, seq-2)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errUnknownEvent
	case err != nil:
		return err
	case len(entries) != 1 || entry(entries[0]).isLast():
		return errUnknownEvent
	}
	s.origin = entry(entries[0]).origin()
	err = s.terminate(ctx, seq)
	if errors.Is(err, store.ErrConflict) { // it is logged now
		return nil
	}
	return err
}
