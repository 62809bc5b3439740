package httpwire

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// sessionServer returns a server with one open session. Its streams are in log.
func sessionServer(t *testing.T, log store.Log) (*Server, *legacy.StoredSession) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	era := &legacy.Server{
		Peers: &rpc.Peers{}, Logger: logger, Changes: &rpc.Changes{},
		Describe: func(principal.Principal) (r mcp.InitializeResult) { return r },
	}
	s := &Server{Legacy: era, Sessions: legacy.NewSessions(era, store.NewMemory(store.MemoryOptions{}), legacy.SessionLimits{}), Streams: NewStreams(log, logger), Logger: logger, KeepAlive: 15 * time.Second}
	state := legacy.State{Revision: mcp.V20251125, Info: []byte("{}"), Capabilities: []byte("{}"), Ready: true}
	id, err := s.Sessions.Create(t.Context(), principal.Anonymous, "a", state)
	if err != nil {
		t.Fatal(err)
	}
	live, err := s.Sessions.Open(t.Context(), principal.Anonymous, id)
	if err != nil {
		t.Fatal(err)
	}
	return s, live
}

// standaloneOf begins a standalone stream as a GET does, and attends to it in another
// goroutine.
func (s *Server) standaloneOf(t *testing.T, live *legacy.StoredSession) (attended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	conn := &eventStream{w: newReader(), ctx: t.Context()}
	go func() {
		defer close(done)
		defer conn.end()
		s.listen(t.Context(), live, conn, nil)
	}()
	synctest.Wait()
	return done
}

// Whoever comes back for a stream and goes before it is theirs has cut off the
// connection before: nobody has the stream then, and it ends as when its client is away.
func TestAStandaloneStreamEndsAfterATakeoverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
		attended := s.standaloneOf(t, live)
		group := groupOf(live.Key())
		stream := s.Streams.standalone(group)[0]

		if err := stream.lock(t.Context()); err != nil { // somebody sends
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := stream.resume(gone, 0, &eventStream{w: newReader(), ctx: gone}); !errors.Is(err, context.Canceled) {
			t.Fatalf("resumed: %v", err)
		}
		stream.unlock()
		<-attended

		time.Sleep(logTTL - 1)
		synctest.Wait()
		if n := len(s.Streams.standalone(group)); n != 1 {
			t.Errorf("%d streams while the client may come back", n)
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if n := len(s.Streams.standalone(group)); n != 0 {
			t.Errorf("%d streams afterwards", n)
		}
	})
}

// The timer of a client that was away before goes on for nobody once another comes.
func TestAStandaloneStreamThatIsTakenOverAfterAFailureGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
		s.standaloneOf(t, live)
		stream := s.Streams.standalone(groupOf(live.Key()))[0]
		stream.disconnected(stream.connection())
		stream.disconnected(nil)
		conn := &eventStream{w: newReader(), ctx: t.Context()}
		if _, err := stream.resume(t.Context(), 0, conn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * logTTL)
		select {
		case <-stream.done:
			t.Error("it has ended though its client is there")
		default:
		}
		stream.end()
		conn.end()
	})
}

// T11: of two streams that begin at the same time the later one stays, whichever of
// them looks for the other first.
func TestT11AStreamEndsOnlyThoseThatItHasTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, live := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
		group := groupOf(live.Key())
		s.standaloneOf(t, live)
		stream := s.Streams.standalone(group)[0]
		s.Streams.endTakenOver(group) // as somebody does who came earlier and is late
		select {
		case <-stream.done:
			t.Error("nobody has taken it over")
		default:
		}
		next, err := s.Sessions.Open(t.Context(), principal.Anonymous, live.ID)
		if err != nil {
			t.Fatal(err)
		}
		s.standaloneOf(t, next)
		if all := s.Streams.standalone(group); len(all) != 1 || all[0] == stream {
			t.Errorf("%d streams are there, want the later one", len(all))
		}
		s.Streams.close()
	})
}

// A stream whose client went before anything was sent has no response to end.
func TestTheConnectionOfAStreamThatHasNotBegunIsNotClosed(t *testing.T) {
	s, live := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
	defer live.Release()
	ctx, cancel := context.WithCancel(t.Context())
	conn := &eventStream{w: hijacked{newReader()}, ctx: ctx}
	a := new(answerStream)
	a.begin(s, live, &http.Request{ProtoMajor: 1, ProtoMinor: 1}, conn)
	if a.ensureStream() == nil {
		t.Fatal("there is no stream")
	}
	cancel()
	if err := a.CloseStream(t.Context(), 0); err != nil {
		t.Error(err)
	}
	a.end()
	conn.end()
}

// hijacked is a ResponseWriter whose connection is not there any more.
type hijacked struct{ *reader }

// Hijack implements http.Hijacker.
func (hijacked) Hijack() (_ net.Conn, _ *bufio.ReadWriter, err error) {
	return nil, nil, http.ErrHijacked
}

// flaky is a Log that fails after the given number of reads.
type flaky struct {
	store.Log
	reads int
}

var errFlaky = errors.New("the store is away")

func (f *flaky) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	if f.reads--; f.reads < 0 {
		return nil, errFlaky
	}
	return f.Log.ReadAfter(ctx, key, seq)
}

// I10: what is sent again is known for as long as it is sent, and no longer.
func TestAStreamThatCannotBeSentAgainIsForgotten(t *testing.T) {
	kv := &flaky{Log: store.NewMemory(store.MemoryOptions{}), reads: 1}
	s, live := sessionServer(t, kv)
	defer live.Release()
	group := groupOf(live.Key())
	stream := s.Streams.add(group, kindPost, nil, nil)
	if err := stream.send(t.Context(), []byte("{}"), entryFinal); err != nil {
		t.Fatal(err)
	}
	stream.end()
	w := newReader()
	r := (&http.Request{}).WithContext(t.Context())
	s.resume(w, r, live, &eventStream{w: w, ctx: t.Context()}, []string{stream.key.Stream + ".0"})
	if w.begun() != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.begun())
	}
	if n := len(s.Streams.sessions); n != 0 {
		t.Errorf("%d sessions have streams", n)
	}
}
