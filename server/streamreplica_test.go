package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// cutStore is a store that fails for a replica that is cut off, as if its process had ended. It counts the
// readings of the log.
type cutStore struct {
	*store.Memory
	cut     atomic.Bool
	reads   atomic.Int64
	session atomic.Pointer[string] // the key of the last session that was written
}

var errCut = errors.New("the store is out of reach")

func (s *cutStore) check() error {
	if s.cut.Load() {
		return errCut
	}
	return nil
}

func (s *cutStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	if strings.Contains(key, "/session/") {
		s.session.Store(&key)
	}
	return s.Memory.Put(ctx, key, value, opt)
}

func (s *cutStore) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Memory.Append(ctx, key, seq, entry, opt)
}

func (s *cutStore) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	s.reads.Add(1)
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.Memory.ReadAfter(ctx, key, seq)
}

func (s *cutStore) Publish(ctx context.Context, topic string, message []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Memory.Publish(ctx, topic, message)
}

// bubbleFleet is replicas in a bubble that share a store. All have the tool "step".
type bubbleFleet struct {
	t       *testing.T
	servers []*server.Server
	stores  []*cutStore
	steps   chan func(context.Context) error // what a call does next; closing it ends the call
}

func newBubbleFleet(t *testing.T, n int, configure ...func(*server.Server)) *bubbleFleet {
	f := &bubbleFleet{t: t, steps: make(chan func(context.Context) error)}
	memory := store.NewMemory(store.MemoryOptions{})
	for range n {
		s, shared := httpServer(), &cutStore{Memory: memory}
		s.KV, s.Log, s.Bus, s.KeepAlive = shared, shared, shared, -1
		server.AddTool(s, mcp.Tool{Name: "step"}, func(ctx context.Context, _ struct{}) (string, error) {
			for {
				select {
				case step, more := <-f.steps:
					if !more {
						return "done", nil
					}
					if err := step(ctx); err != nil {
						return "", err
					}
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}
		})
		for _, c := range configure {
			c(s)
		}
		if err := s.Check(); err != nil { // it serves from now on
			t.Fatal(err)
		}
		f.servers, f.stores = append(f.servers, s), append(f.stores, shared)
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.Shutdown(ctx)
		})
	}
	synctest.Wait()
	return f
}

// session starts a session of a revision at the first replica.
func (f *bubbleFleet) session(version string) []string {
	f.t.Helper()
	rec := inBubble(f.servers[0], http.MethodPost, fmt.Sprintf(wiretest.Initialize, version))
	session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id"), "Accept", "text/event-stream, application/json"}
	if rec := inBubble(f.servers[0], http.MethodPost, wiretest.Initialized, session...); rec.Code != http.StatusAccepted {
		f.t.Fatal(rec.Code, rec.Body)
	}
	return session
}

// exchange is a request in flight.
type exchange struct {
	rec   *recorder
	leave context.CancelFunc // the client disconnects
	done  chan struct{}
}

// recorder is a response that can be read while it is written.
type recorder struct {
	mu  sync.Mutex
	rec *httptest.ResponseRecorder
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.rec.Header() }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Write(b)
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.WriteHeader(status)
}

// Flush implements http.Flusher.
func (r *recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Flush()
}

// state returns the status and the body so far.
func (r *recorder) state() (status int, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.Code, r.rec.Body.String()
}

func (x *exchange) status() int {
	status, _ := x.rec.state()
	return status
}

func (x *exchange) body() string {
	_, body := x.rec.state()
	return body
}

// open begins a request at a replica.
func (f *bubbleFleet) open(replica int, method, body string, header ...string) *exchange {
	ctx, leave := context.WithCancel(f.t.Context())
	req := wiretest.NewRequest(ctx, method, "http://localhost/", body, header...)
	x := &exchange{&recorder{rec: httptest.NewRecorder()}, leave, make(chan struct{})}
	go func() {
		defer close(x.done)
		f.servers[replica].ServeHTTP(x.rec, req)
	}()
	synctest.Wait()
	return x
}

func (f *bubbleFleet) resume(replica int, session []string, id string) *exchange {
	return f.open(replica, http.MethodGet, "", append(session, "Last-Event-ID", id)...)
}

// frames returns the events that have arrived.
func (x *exchange) frames() []wiretest.Event {
	synctest.Wait()
	return wiretest.ReadEvents(strings.NewReader(x.body())).Take(everything)
}

// ended reports whether the response is complete.
func (x *exchange) ended() bool {
	synctest.Wait()
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// progress makes the call send progress from first to last.
func (f *bubbleFleet) progress(first, last int) {
	f.steps <- func(ctx context.Context) error {
		for i := first; i <= last; i++ {
			if err := server.Progress(ctx, float64(i), 1e6, ""); err != nil {
				return err
			}
		}
		return nil
	}
	synctest.Wait()
}

func TestEventsWakeTheFollowersOfTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		started, before := time.Now(), f.stores[1].reads.Load()
		for i := range 100 {
			f.progress(2+i, 2+i)
			if n := len(x.frames()); n != 1+i {
				t.Fatalf("%d events after %d", n, 1+i)
			}
		}
		if waited := time.Since(started); waited > 0 {
			t.Errorf("the events arrive after %v", waited)
		}
		time.Sleep(time.Minute)
		if n := f.stores[1].reads.Load() - before; n > 100+2*16 {
			t.Errorf("%d readings of the log for 100 events and one minute", n)
		}
		close(f.steps)
		wantNumbered(t, x.frames(), 2, 101)
		wantAnswer(t, x.frames(), 102)
		if !x.ended() {
			t.Error("the stream has not ended")
		}
	})
}

// The connection that took over the stream of another receives its events at once.
func TestEventsWakeTheNextConnectionOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		id := call.frames()[0].ID
		before, x := f.resume(1, session, id), f.resume(1, session, id)
		if !before.ended() {
			t.Error("the first connection has not ended")
		}
		started := time.Now()
		f.progress(2, 2)
		wantNumbered(t, x.frames(), 2, 2)
		if waited := time.Since(started); waited > 0 {
			t.Errorf("the event arrives after %v", waited)
		}
		close(f.steps)
	})
}

// slowBus holds back messages until gate is closed.
type slowBus struct {
	*store.Memory
	gate chan struct{}
}

func (b slowBus) Publish(ctx context.Context, topic string, message []byte) error {
	<-b.gate
	return b.Memory.Publish(ctx, topic, message)
}

// An event may be logged after the follower has read the log and before the replica of the call knows of it.
func TestEventsAtTheBeginningOfAFollowerAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, n := slowBus{store.NewMemory(store.MemoryOptions{}), make(chan struct{})}, 0
		f := newBubbleFleet(t, 2, func(s *server.Server) {
			s.Bus = bus.Memory
			if n++; n == 2 {
				s.Bus = bus
			}
		})
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		f.progress(2, 2)
		if n := len(x.frames()); n != 0 {
			t.Fatalf("%d events without the Bus", n)
		}
		close(bus.gate)
		started := time.Now()
		wantNumbered(t, x.frames(), 2, 2)
		if waited := time.Since(started); waited > 0 {
			t.Errorf("the event arrives after %v", waited)
		}
		close(f.steps)
	})
}

// A follower reads the log at intervals, because the Bus may lose announcements.
func TestFollowersReceiveEventsWithoutTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
		f := newBubbleFleet(t, 2, func(s *server.Server) { s.Bus = bus })
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		bus.down.Store(true)
		x := f.resume(1, session, call.frames()[0].ID)
		close(f.steps)
		time.Sleep(5 * time.Second)
		wantAnswer(t, x.frames(), 2)
	})
}

// When the replica of a call ends, the client receives one error for its request within the lease, wherever
// and whenever it resumes the stream.
func TestStreamsOfAReplicaThatHasEndedEndWithOneError(t *testing.T) {
	const lost = `"error":{"code":-32603,"message":"the server process that served the request has ended`
	for _, version := range resumableRevisions {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 4)
			session := f.session(version)
			body, want := stepCall, `{"jsonrpc":"2.0","id":1,`+lost
			if version == "2025-03-26" {
				body = "[" + stepCall + `,{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"step","_meta":{"progressToken":2}}}]`
				want = `[{"jsonrpc":"2.0","id":1,` + lost
			}
			call := f.open(0, http.MethodPost, body, session...)
			f.progress(1, 1) // of any request of the batch
			first := call.frames()
			last := first[len(first)-1].ID
			followers := []*exchange{f.resume(1, session, last), f.resume(2, session, last)}
			f.stores[0].cut.Store(true)
			started := time.Now()
			for time.Since(started) < time.Minute && !(followers[0].ended() && followers[1].ended()) {
				time.Sleep(time.Second)
			}
			if waited := time.Since(started); waited > 20*time.Second {
				t.Errorf("the streams end after %v", waited)
			}
			later := f.resume(3, session, last)
			for _, x := range append(followers, later) {
				got := x.frames()
				if len(got) != 1 || got[0].Seq() != "2" || !strings.HasPrefix(got[0].Data, want) {
					t.Errorf("%s: %v", version, got)
				}
				if version == "2025-03-26" && !strings.Contains(got[0].Data, `,{"jsonrpc":"2.0","id":"b",`+lost) {
					t.Errorf("the other request of the batch: %v", got)
				}
			}
			if !later.ended() {
				t.Error("a later stream does not end")
			}
			// The replica was only slow. Its client must not receive a second response.
			before := len(call.body())
			f.stores[0].cut.Store(false)
			close(f.steps)
			if !call.ended() || len(call.body()) != before {
				t.Errorf("the client received a second response: %s", call.body()[before:])
			}
		})
	}
}

// A client that knows the stream but has not received an event can resume it at another replica.
func TestAStreamWithoutEventsIsResumedAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		f.servers[0].KeepAlive = 0
		session := f.session("2025-11-25")
		call := f.open(0, http.MethodPost, stepCall, session...)
		time.Sleep(20 * time.Second) // until the first keep-alive comment
		got := call.frames()
		if len(got) != 1 || got[0].ID == "" {
			t.Fatalf("the client does not know the stream: %s", call.body())
		}
		call.leave()
		time.Sleep(20 * time.Minute) // longer than events are stored
		x := f.resume(1, session, got[0].ID)
		if x.status() != http.StatusOK {
			t.Fatalf("%d %s", x.status(), x.body())
		}
		f.progress(1, 1)
		close(f.steps)
		if got := x.frames(); len(got) != 2 || !strings.Contains(got[0].Data, `"progress":1`) || !strings.Contains(got[1].Data, `"id":1,"result"`) {
			t.Errorf("%v", got)
		}
	})
}

// The stream of a cancelled call ends without a response, also at another replica.
func TestTheStreamOfACancelledCallEndsAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 3)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		f.open(2, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, session...)
		if !x.ended() || len(x.frames()) != 0 {
			t.Errorf("the stream has not ended: %v", x.frames())
		}
	})
}
