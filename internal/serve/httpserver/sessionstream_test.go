package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// sessionServer returns a server with one open session, whose events are in log.
func sessionServer(t *testing.T, log store.Log) (*Server, *legacy.StoredSession) {
	t.Helper()
	state := legacy.State{Revision: mcp.V20251125, Info: []byte("{}"), Capabilities: []byte("{}"), Ready: true}
	return storedSessionServer(t, store.NewMemory(), log, state)
}

// storedSessionServer is sessionServer with the store and the state of the session.
func storedSessionServer(t *testing.T, kv store.KV, log store.Log, state legacy.State) (*Server,
	*legacy.StoredSession) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	era := &legacy.Server{
		Peers: &rpc.PeerCache{}, Logger: logger, Changes: &changes.Broadcaster{},
		Describe: func(principal.Principal) (r mcp.InitializeResult) { return r },
	}
	s := &Server{Legacy: era, Sessions: legacy.NewSessions(era, kv, legacy.SessionLimits{}),
		Streams: NewStreams(log, logger), Logger: logger, KeepAlive: 15 * time.Second}
	id := must.Get(s.Sessions.Create(t.Context(), principal.Anonymous, "a", state))(t)
	live := must.Get(s.Sessions.Use(t.Context(), principal.Anonymous, id, false))(t)
	return s, live
}

// startStandalone starts a standalone stream as a GET request does. The returned channel
// is closed when the stream's connection is done.
func (s *Server) startStandalone(t *testing.T, live *legacy.StoredSession) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	conn := &eventStream{w: newReader(), ctx: t.Context()}
	go func() {
		defer close(done)
		defer conn.end()
		stream, connDone, err := s.listen(t.Context(), live, conn)
		if err != nil {
			t.Error(err)
			return
		}
		c := &servedStream{server: s, conn: conn, live: live, stream: stream, connDone: connDone}
		c.prepare(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil))
		defer c.close()
		c.serve()
	}()
	synctest.Wait()
	return done
}

// A client that resumes a stream and disconnects before it has taken over has ended the
// previous connection. The stream then expires as if its client had disconnected.
func TestStandaloneStreamExpiresAfterFailedTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory())
		served := s.startStandalone(t, live)
		group := live.Key()
		stream := s.Streams.standalone(group)[0]

		must.Do(t, stream.lock(t.Context())) // another goroutine sends
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		must.Is(t, must.Err(stream.resume(gone, 0, &eventStream{w: newReader(), ctx: gone})), context.Canceled)
		stream.unlock()
		<-served

		time.Sleep(logTTL - 1)
		synctest.Wait()
		must.CheckEqual(t, len(s.Streams.standalone(group)), 1)
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		must.CheckEqual(t, len(s.Streams.standalone(group)), 0)
	})
}

// A resumed stream stops the expiry timer of its earlier disconnection.
func TestResumedStandaloneStreamDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory())
		s.startStandalone(t, live)
		stream := s.Streams.standalone(live.Key())[0]
		stream.disconnected(stream.connection())
		stream.disconnected(nil)
		conn := &eventStream{w: newReader(), ctx: t.Context()}
		must.Get(stream.resume(t.Context(), 0, conn))(t)
		time.Sleep(2 * logTTL)
		select {
		case <-stream.done:
			t.Error("the stream has ended while its client is connected")
		default:
		}
		stream.end()
		conn.end()
	})
}

// Rule T11: if two standalone streams begin at the same time, the later one remains, whichever
// calls endTakenOver first.
func TestStreamEndsOnlyOlderStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory())
		group := live.Key()
		s.startStandalone(t, live)
		stream := s.Streams.standalone(group)[0]
		s.Streams.endTakenOver(group) // a late call for an older stream
		select {
		case <-stream.done:
			t.Error("the stream has ended without a newer one")
		default:
		}
		next := must.Get(s.Sessions.Use(t.Context(), principal.Anonymous, live.ID, false))(t)
		s.startStandalone(t, next)
		all := s.Streams.standalone(group)
		must.CheckThat(t, len(all) == 1 && all[0] != stream, "%d streams remain, want only the later one", len(all))
		s.Streams.close()
	})
}

// flaky is a store.Log that fails after the given number of reads.
type flaky struct {
	store.Log
	reads int
}

var errFlaky = errors.New("store unavailable")

func (f *flaky) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	if f.reads--; f.reads < 0 {
		return nil, errFlaky
	}
	return f.Log.ReadAfter(ctx, key, seq)
}

// A replayed stream is registered only while it is sent.
func TestReplayedStreamIsRemovedAfterAnError(t *testing.T) {
	kv := &flaky{Log: store.NewMemory(), reads: 1}
	s, live := sessionServer(t, kv)
	defer live.Release()
	group := live.Key()
	stream := s.Streams.add(group, nil)
	must.Do(t, stream.send(t.Context(), []byte("{}"), entryFinal))
	stream.end()
	w := newReader()
	r := (&http.Request{}).WithContext(t.Context())
	s.resume(w, r, live, &eventStream{w: w, ctx: t.Context()}, []string{stream.key.Stream + ".0"})
	must.CheckEqual(t, w.begun(), http.StatusServiceUnavailable)
	must.CheckEqual(t, len(s.Streams.sessions), 0)
}

// endingLog calls end after some readings that found no entry.
type endingLog struct {
	store.Log
	end   func()
	empty int
}

func (l *endingLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := l.Log.ReadAfter(ctx, key, seq)
	if len(entries) == 0 && err == nil {
		if l.empty--; l.empty == 0 {
			l.end()
		}
	}
	return entries, err
}

// The stream may end while a client resumes it: between two readings of the log.
func TestAnEventIsNotRepeatedWhenItsStreamEndsDuringAResumption(t *testing.T) {
	for name, entries := range map[string]struct {
		logged []entry
		want   string
	}{
		"with an error": {[]entry{entry("u1 1\n{\"lost\":1}")}, `id: %s.2 event: message {"lost":1}`},
		"with an event and the error": {[]entry{entry("m1 1\n{\"n\":2}"), entry("u1 1\n{\"lost\":1}")},
			`id: %[1]s.2 event: message {"n":2} id: %[1]s.3 event: message {"lost":1}`},
		"with its response": {[]entry{entry("f1 1\n{\"n\":2}")}, `id: %s.2 event: message {"n":2}`},
	} {
		for at := 1; at <= 3; at++ {
			log := &endingLog{Log: store.NewMemory(), empty: at}
			s, live := sessionServer(t, log)
			s.Streams.Lease = &lease.Lease{}
			key := store.StreamKey{Group: live.Key(), Stream: httpcodec.NewStreamName(httpcodec.KindPost)}
			seq := uint64(0)
			add := func(e entry) {
				seq++
				must.Do(t, s.Streams.append(key, seq, e))
			}
			add(entry("m1 1\n{\"n\":1}"))
			log.end = func() {
				for _, e := range entries.logged {
					add(e)
				}
			}
			w := newReader()
			conn := &eventStream{w: w, ctx: t.Context()}
			s.resume(w, (&http.Request{}).WithContext(t.Context()), live, conn, []string{key.Stream + ".1"})
			conn.end()
			got := strings.Join(strings.Fields(strings.NewReplacer(":\n", " ", "data:", "").Replace(w.text())), " ")
			must.CheckEqual(t, got, fmt.Sprintf(entries.want, key.Stream), name, at)
			live.Release()
		}
	}
}

// Another program may have written to the log, or this replica may not have the keys.
func TestAStreamWithAForeignEntryCannotBeResumed(t *testing.T) {
	for _, foreign := range []string{"", "m", "garbage\n", "\n"} {
		memory := store.NewMemory()
		s, live := sessionServer(t, memory)
		key := store.StreamKey{Group: live.Key(), Stream: httpcodec.NewStreamName(httpcodec.KindPost)}
		must.Do(t, memory.Append(t.Context(), key, 1, []byte(foreign), appendOptions))
		w := newReader()
		s.resume(w, (&http.Request{}).WithContext(t.Context()), live, &eventStream{w: w, ctx: t.Context()},
			[]string{key.Stream + ".0"})
		if w.begun() != http.StatusGone {
			t.Errorf("%q: status %d %s", foreign, w.begun(), w.text())
		}
		live.Release()
	}
}

// A response that is the only event of its stream is logged, so that a client that loses it
// can fetch it. The log ends with the session, also if that ends before the response.
func TestOnlyEventOfAStreamIsLogged(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		log := store.NewMemory()
		s, live := sessionServer(t, log)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		x := &exchange{response: response{stream: eventStream{w: w, ctx: t.Context()}, accept: accepted{events: true}},
			context: detachedContext{t.Context(), r}}
		a := &x.answer
		a.server, a.live, a.x, x.stream.answer = s, live, x, a
		if deleted {
			must.Do(t, s.Sessions.Delete(t.Context(), principal.Anonymous, live.ID))
			s.Streams.endSession(live.Key(), true)
		}
		reply := []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		s.respond(x, a, &reply, new(outcome))

		events := httpcodec.NewEventReader(w.Body, 1<<20)
		ev := must.Get(events.Next())(t)
		must.Equal(t, string(ev.Data), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		stream, seq, ok := httpcodec.ParseEventID(events.ID)
		must.CheckThat(t, ok && seq == 1 && strings.HasPrefix(stream, "p"), "event id %q", events.ID)
		entries, err := log.ReadAfter(t.Context(), store.StreamKey{Group: live.Key(), Stream: stream}, 0)
		switch {
		case deleted && !errors.Is(err, store.ErrNotFound):
			t.Errorf("%q, %v: logged after the end of the session", entries, err)
		case !deleted && (err != nil || len(entries) != 1 || entries[0][0] != entryFinal):
			t.Errorf("%q, %v: not logged", entries, err)
		}
		must.CheckEqual(t, len(s.Streams.sessions), 0)
		live.Release()
	}
}

// Rules T12, T13: an id opens only its own stream in its own session, and has one spelling.
func FuzzEventID(f *testing.F) {
	streams := NewStreams(store.NewMemory(), slog.New(slog.DiscardHandler))
	const own, foreign = "principal/session/own/streams", "principal/session/foreign/streams"
	names := make(map[string][]string) // names of streams by session
	for _, group := range []string{own, foreign} {
		for range 2 {
			s := streams.add(group, nil)
			for range 3 {
				must.Do(f, s.send(f.Context(), []byte(s.key.Stream), entryMessage))
			}
			names[group] = append(names[group], s.key.Stream)
			f.Add(string(httpcodec.AppendEventID(nil, s.key.Stream, 1)))
			must.Do(f, s.send(f.Context(), []byte(s.key.Stream), entryFinal))
			if len(names[group]) == 2 {
				s.end() // find replays its log
			}
		}
	}
	for _, id := range []string{"", ".", "1", names[own][0], names[own][0] + ".", names[own][0] + ".01", names[own][0] +
		".18446744073709551615", "g" + names[own][0][1:] + ".0", "p../../../../etc.0", names[own][0] + "\n.1",
		strings.Repeat("p", 1000)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, seq, ok := httpcodec.ParseEventID(id)
		if !ok {
			return
		}
		must.Equal(t, string(httpcodec.AppendEventID(nil, name, seq)), id)
		s, err := streams.find(t.Context(), own, name, seq)
		if err != nil {
			must.That(t, errors.Is(err, errUnknownEvent) || errors.Is(err, store.ErrPurged), "%v", err)
			return
		}
		defer func() {
			if s.replay {
				streams.remove(s)
			}
		}()
		must.That(t, name == names[own][0] || name == names[own][1], "%q opens a stream", id)
		entries, err := s.entriesAfter(t.Context(), seq)
		if err != nil {
			return
		}
		must.Equal(t, len(entries), int(4-seq), id)
		for _, e := range entries {
			must.Equal(t, string(entry(e).message()), name, id, e)
		}
	})
}
