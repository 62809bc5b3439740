package httpserver

import (
	"bytes"
	"context"
	"errors"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// An entry of the log of a stream consists of its kind, the origin of the stream, a line feed and the message.
type entry []byte

// Kinds of entries.
const (
	entryMessage = 'm' // more entries follow
	entryFinal   = 'f' // the last entry of the stream
	entryOpened  = 'o' // has no message: the client knows the stream, which has no event yet or was silent for long
	entryEnded   = 'e' // the last entry of a stream without a response; has no message
	// entryUnlogged is the last entry of a stream with an event that could not be logged. Its message is an error for
	// each request. Clients that have received an event with its number receive it, too.
	entryUnlogged = 'u'
)

// maxOrigin limits the origin, in bytes, because each entry has it. The stream of a batch with longer ids cannot be
// resumed.
const maxOrigin = 4 << 10

// originOf returns the origin of the stream of a request or a batch: the replica that serves it, a space,
// and the ids of the requests as JSON. A batch has an array. The origin is nil if it is longer than maxOrigin.
func originOf(replica string, request jsonrpc.ID, batch []jsonrpc.ID) []byte {
	origin := append([]byte(replica), ' ')
	if batch == nil {
		origin = request.Append(origin)
	} else {
		origin = append(origin, '[')
		for i, id := range batch {
			if i > 0 {
				origin = append(origin, ',')
			}
			origin = id.Append(origin)
		}
		origin = append(origin, ']')
	}
	if len(origin) > maxOrigin {
		return nil
	}
	return origin
}

func appendEntry(dst []byte, kind byte, origin, message []byte) entry {
	return append(append(append(append(dst, kind), origin...), '\n'), message...)
}

// isValid reports whether e is the result of appendEntry.
func (e entry) isValid() bool {
	return len(e) > 0 && bytes.IndexByte([]byte{entryMessage, entryFinal, entryOpened, entryEnded, entryUnlogged},
		e[0]) >= 0 && bytes.IndexByte(e, '\n') > 0
}

func (e entry) isLast() bool {
	return e[0] == entryFinal || e[0] == entryEnded || e[0] == entryUnlogged
}

// message returns the message, or nil if the entry has none.
func (e entry) message() []byte {
	if e[0] != entryMessage && e[0] != entryFinal && e[0] != entryUnlogged {
		return nil
	}
	_, message, _ := bytes.Cut(e, []byte{'\n'})
	return message
}

func (e entry) origin() []byte {
	origin, _, _ := bytes.Cut(e[1:], []byte{'\n'})
	return origin
}

// replica returns the replica that serves the requests of the stream.
func (e entry) replica() string {
	replica, _, _ := bytes.Cut(e.origin(), []byte{' '})
	return string(replica)
}

var errNoOrigin = errors.New("the log does not contain the ids of the requests")

// lostResponse returns the last entry of a stream without a response: an error for each of its requests. The kind is
// entryFinal if its replica has ended, or entryUnlogged.
func (e entry) lostResponse(kind byte) (entry, error) {
	_, raw, _ := bytes.Cut(e.origin(), []byte{' '})
	lost := &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
		Message: "the server process that served the request has ended: the outcome of the request is unknown"}
	if kind == entryUnlogged {
		lost.Message = "cannot resume the stream of the request: the server could not store an event: the outcome of " +
			"the request is unknown"
	}
	var ids []jsonrpc.ID
	batch := bytes.HasPrefix(raw, []byte{'['})
	if !batch {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	if err := jsonv2.Unmarshal(raw, &ids); err != nil || len(ids) == 0 {
		return nil, errNoOrigin
	}
	var message []byte
	for i, id := range ids {
		if i > 0 {
			message = append(message, ',')
		}
		message = jsonrpc.AppendError(message, id, lost, false)
	}
	if batch {
		message = append(append([]byte{'['}, message...), ']')
	}
	return appendEntry(nil, kind, e.origin(), message), nil
}

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
