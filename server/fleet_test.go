package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// openPair opens the event stream of an HTTP+SSE pair and returns the endpoint.
func openPair(t *testing.T, s *server.Server, header ...string) (x *exchange, endpoint string) {
	t.Helper()
	x = openIn(t, s, http.MethodGet, "/", "", append(header, "Accept", "text/event-stream")...)
	endpoint = x.messages()[0]
	if !strings.HasPrefix(endpoint, "/?sessionId=") {
		t.Fatal(x.body())
	}
	return x, endpoint
}

// post posts a message to the endpoint of a pair, at a replica, and returns the status and the body.
func (f *bubbleFleet) post(replica int, endpoint, body string, header ...string) (int, string) {
	rec := wiretest.Record(f.servers[replica], http.MethodPost, "http://localhost"+endpoint, body, header...)
	synctest.Wait()
	return rec.Code, rec.Body.String()
}

// accept posts messages that must be accepted.
func (f *bubbleFleet) accept(replica int, endpoint string, bodies ...string) {
	f.t.Helper()
	for _, body := range bodies {
		status, text := f.post(replica, endpoint, body)
		must.That(f.t, status == http.StatusAccepted && text == "", "%.100s: %d %s", body, status, text)
	}
}

// inBubble serves requests without a network, so that hours pass at once in a bubble of package
// synctest.
func inBubble(s *server.Server, method, body string, header ...string) *httptest.ResponseRecorder {
	return wiretest.Record(s, method, "http://localhost/", body, header...)
}

// begin starts a session and returns the header that names it.
func begin(t *testing.T, s *server.Server) []string {
	t.Helper()
	rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
	must.Equal(t, rec.Code, http.StatusOK, rec.Body)
	return []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}
}

// hookedStore is a store whose operations a test can observe, delay and fail.
type hookedStore struct {
	store.Store
	// before is called before each operation, and after when it has had its effect, with its name and key. The error is
	// that of the operation. Each may be nil.
	before, after func(ctx context.Context, op, key string, value []byte) error
}

func newHookedStore(before func(ctx context.Context, op, key string, value []byte) error) *hookedStore {
	return &hookedStore{Store: store.NewMemory(), before: before}
}

func hooked[T any](
	ctx context.Context, s *hookedStore, op, key string, value []byte, do func() (T, error),
) (none T, err error) {
	if s.before != nil {
		if err := s.before(ctx, op, key, value); err != nil {
			return none, err
		}
	}
	result, err := do()
	if err == nil && s.after != nil {
		err = s.after(ctx, op, key, value)
	}
	if err != nil {
		return none, err
	}
	return result, nil
}

func (s *hookedStore) Get(ctx context.Context, key string) (store.Item, error) {
	return hooked(ctx, s, "get", key, nil, func() (store.Item, error) { return s.Store.Get(ctx, key) })
}

func (s *hookedStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	return hooked(ctx, s, "put", key, value, func() (uint64, error) { return s.Store.Put(ctx, key, value, opt) })
}

func (s *hookedStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	return hooked(ctx, s, "touch", key, nil, func() (store.Item, error) { return s.Store.Touch(ctx, key, ttl) })
}

func (s *hookedStore) Delete(ctx context.Context, key string) error {
	_, err := hooked(ctx, s, "delete", key, nil, func() (any, error) { return nil, s.Store.Delete(ctx, key) })
	return err
}

func (s *hookedStore) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	_, err := hooked(ctx, s, "add", set, []byte(member), func() (any, error) {
		return nil, s.Store.Add(ctx, set, member, ttl, limit)
	})
	return err
}

func (s *hookedStore) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	_, err := hooked(ctx, s, "append", key.Group+" "+key.Stream, entry, func() (any, error) {
		return nil, s.Store.Append(ctx, key, seq, entry, opt)
	})
	return err
}

func (s *hookedStore) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	return hooked(ctx, s, "read", key.Group+" "+key.Stream, nil, func() ([][]byte, error) {
		return s.Store.ReadAfter(ctx, key, seq)
	})
}

func (s *hookedStore) Publish(ctx context.Context, topic string, message []byte) error {
	_, err := hooked(ctx, s, "publish", topic, message, func() (any, error) {
		return nil, s.Store.Publish(ctx, topic, message)
	})
	return err
}

func (s *hookedStore) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	return hooked(ctx, s, "subscribe", topic, nil, func() (*store.Subscription, error) {
		return s.Store.Subscribe(ctx, topic, queue)
	})
}

// kept is a store that records its keys.
type kept struct {
	*hookedStore
	mu    sync.Mutex
	keys  map[string]bool
	heads map[string]bool // of streams, as a group, a space and a name
}

func newKept() *kept {
	k := &kept{keys: make(map[string]bool), heads: make(map[string]bool)}
	k.hookedStore = newHookedStore(func(_ context.Context, op, key string, _ []byte) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		switch op {
		case "put":
			k.keys[key] = true
		case "append":
			k.heads[key] = true
		}
		return nil
	})
	return k
}

// streams returns the number of streams with stored events.
func (k *kept) streams(t *testing.T) (n int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.heads {
		group, stream, _ := strings.Cut(key, " ")
		if _, err := k.Store.ReadAfter(t.Context(), store.StreamKey{Group: group, Stream: stream}, 0); err == nil {
			n++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return n
}

// left returns the number of entries.
func (k *kept) left(t *testing.T) (n int) {
	t.Helper()
	k.mu.Lock()
	keys := slices.Collect(maps.Keys(k.keys))
	k.mu.Unlock()
	for _, key := range keys {
		if _, err := k.Get(t.Context(), key); err == nil {
			n++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return n
}

// withNote adds a resource.
func withNote(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
}

// listen opens the standalone stream of a session.
func (f *bubbleFleet) listen(replica int, session []string) *exchange {
	return f.open(replica, http.MethodGet, "", session...)
}

// messages returns the messages that have arrived.
func (x *exchange) messages() []string {
	synctest.Wait()
	return x.received()
}

// received is messages for a goroutine that must not wait for the others.
func (x *exchange) received() (all []string) {
	for _, f := range wiretest.ReadEvents(strings.NewReader(x.body())).Take(everything) {
		if f.Data != "" {
			all = append(all, f.Data)
		}
	}
	return all
}

// subscribe sends resources/subscribe or resources/unsubscribe to a replica.
func (f *bubbleFleet) subscribe(replica int, session []string, method string) {
	f.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"uri":"note://a"}}`, method)
	rec := inBubble(f.servers[replica], http.MethodPost, body, session...)
	must.That(f.t, rec.Code == http.StatusOK && !strings.Contains(rec.Body.String(), "error"),
		"%v %v", rec.Code, rec.Body)
	synctest.Wait()
}

// coalescing is longer than changes wait for others.
const coalescing = 100 * time.Millisecond

// cutStore is a store that fails for a replica that is cut off, as if its process had ended. It counts the
// readings of the log.
type cutStore struct {
	*hookedStore
	cut     atomic.Bool
	reads   atomic.Int64
	session atomic.Pointer[string] // the key of the last session that was written
}

func newCutStore(memory store.Store) *cutStore {
	s := new(cutStore)
	s.hookedStore = &hookedStore{Store: memory, before: func(_ context.Context, op, key string, _ []byte) error {
		switch op {
		case "read":
			s.reads.Add(1)
		case "put", "append", "publish":
		default:
			return nil
		}
		if s.cut.Load() {
			return errors.New("the store is out of reach")
		}
		if op == "put" && strings.Contains(key, "/session/") {
			s.session.Store(&key)
		}
		return nil
	}}
	return s
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
	memory := store.NewMemory()
	for range n {
		s, shared := httpServer(), newCutStore(memory)
		s.Store, s.Limits.KeepAlive = shared, -1
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
		must.Do(t, s.Check()) // it serves from now on
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
	session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id"), "Accept",
		"text/event-stream, application/json"}
	if rec := inBubble(f.servers[0], http.MethodPost, wiretest.Initialized,
		session...); rec.Code != http.StatusAccepted {
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

// openIn begins a request without a network.
func openIn(t *testing.T, h http.Handler, method, target, body string, header ...string) *exchange {
	ctx, leave := context.WithCancel(t.Context())
	req := wiretest.NewRequest(ctx, method, "http://localhost"+target, body, header...)
	x := &exchange{&recorder{rec: httptest.NewRecorder()}, leave, make(chan struct{})}
	go func() {
		defer close(x.done)
		h.ServeHTTP(x.rec, req)
	}()
	synctest.Wait()
	return x
}

// end ends a request, as its client does by leaving.
func (x *exchange) end() *exchange {
	x.leave()
	<-x.done
	return x
}

// open begins a request at a replica.
func (f *bubbleFleet) open(replica int, method, body string, header ...string) *exchange {
	return openIn(f.t, f.servers[replica], method, "/", body, header...)
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
