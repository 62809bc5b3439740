package legacy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// spy is a store that counts and can be made to fail.
type faultyStore struct {
	store.KV
	gets atomic.Int64
	fail atomic.Pointer[error]
}

func newFaultyStore() *faultyStore { return &faultyStore{KV: store.NewMemory(store.MemoryOptions{})} }

func (s *faultyStore) failWith(err error) { s.fail.Store(&err) }

func (s *faultyStore) err() error {
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *faultyStore) Get(ctx context.Context, key string) (store.Item, error) {
	s.gets.Add(1)
	if err := s.err(); err != nil {
		return store.Item{}, err
	}
	return s.KV.Get(ctx, key)
}

func (s *faultyStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.KV.Put(ctx, key, value, opt)
}

var someState = State{Revision: mcp.V20251125, Info: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{}`)}

func newSessions(limits SessionLimits) (*Sessions, *faultyStore) {
	server, _ := newServer()
	kv := newFaultyStore()
	return NewSessions(server, kv, limits), kv
}

func mustCreate(t *testing.T, s *Sessions, who principal.Principal, address string) string {
	t.Helper()
	id, err := s.Create(t.Context(), who, address, someState)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustOpen(t *testing.T, s *Sessions, who principal.Principal, id string) *StoredSession {
	t.Helper()
	l, err := s.Open(t.Context(), who, id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// exists reports whether a session can be opened, without making it younger.
func exists(t *testing.T, s *Sessions, id string) bool {
	t.Helper()
	l, err := s.Open(t.Context(), principal.Anonymous, id)
	if err == nil {
		l.Release()
	} else if !errors.Is(err, ErrNoSession) {
		t.Fatal(err)
	}
	return err == nil
}

func TestT8SessionIDsAreUnguessableAndVisibleASCII(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`) // 132 bits' worth of characters for 128
	seen := make(map[string]bool)
	for range 1000 {
		id := mustCreate(t, s, principal.Anonymous, "a")
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("id %q, seen before: %v", id, seen[id])
		}
		seen[id] = true
	}
}

// Ids that are none of ours, however long or odd, are unknown without a look at the store.
func TestT8ForgedSessionIDsAreUnknown(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	before := kv.gets.Load()
	for _, forged := range []string{
		"", "x", "../" + id, id + "/", id + "x", id[1:], strings.Repeat("A", 1<<20), "anonymous/session/" + id,
		strings.Repeat("*", 22), strings.Repeat(".", 22), id[:21] + "\n", id[:20] + "\r\n", id[:21] + "\x00", "local/session/AAAAAAAAA",
	} {
		if _, err := s.Open(t.Context(), principal.Anonymous, forged); !errors.Is(err, ErrNoSession) {
			t.Errorf("%.40q: %v", forged, err)
		}
	}
	if n := kv.gets.Load() - before; n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	if _, err := s.Open(t.Context(), principal.Anonymous, strings.Repeat("A", 22)); !errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
}

// Whoever gets to see the keys of a store has got no session by that.
func TestKeysOfTheStoreDoNotTellSessionIDs(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	for _, who := range []principal.Principal{principal.Anonymous, user(t, "ada")} {
		id := mustCreate(t, s, who, "a")
		l, err := s.Open(t.Context(), who, id)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(l.Key(), who.Key()+"session/") || strings.Contains(l.Key(), id) {
			t.Errorf("the session %s is kept at %s", id, l.Key())
		}
		l.Release()
	}
}

// T9, T10: an id is of no use to anybody but the session's principal, and tells nobody else
// that it exists.
func TestT9T10SessionIsUnknownToEverybodyElse(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	ada, bob := user(t, "ada"), user(t, "bob")
	all := []principal.Principal{ada, bob, principal.Anonymous, principal.Local}
	for _, owner := range all {
		id := mustCreate(t, s, owner, "a")
		for _, other := range all {
			l, err := s.Open(t.Context(), other, id)
			switch {
			case other == owner && err != nil:
				t.Errorf("%s cannot open their session: %v", owner, err)
			case other == owner:
				l.Release()
			case !errors.Is(err, ErrNoSession):
				t.Errorf("%s can open the session of %s: %v", other, owner, err)
			}
			if other != owner {
				if err := s.Delete(t.Context(), other, id); err != nil {
					t.Error(err)
				}
			}
		}
		if l, err := s.Open(t.Context(), owner, id); err != nil {
			t.Errorf("somebody else has deleted the session of %s", owner)
		} else {
			l.Release()
		}
	}
}

func TestSessionIsOpenedAsItWasCreated(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	if l.ID != id || l.Revision != someState.Revision || l.peer.Info.Name != "c" || l.Ready || !l.Initialized() {
		t.Errorf("%+v", l.State)
	}
	again := mustOpen(t, s, principal.Anonymous, id)
	defer again.Release()
	if again != l {
		t.Error("two uses at a time share nothing")
	}
}

func TestUninitializedSessionEndsAfterThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSessions(SessionLimits{})
		id := mustCreate(t, s, principal.Anonymous, "a")
		time.Sleep(29 * time.Second)
		if !exists(t, s, id) {
			t.Error("it ended early")
		}
		time.Sleep(time.Second)
		if exists(t, s, id) {
			t.Error("it is still there")
		}
	})
}

func TestInitializedSessionEndsWhenIdleForHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSessions(SessionLimits{})
		id := mustCreate(t, s, principal.Anonymous, "a")
		use := func(f func(l *StoredSession) error) {
			t.Helper()
			l := mustOpen(t, s, principal.Anonymous, id)
			defer l.Release()
			if err := f(l); err != nil {
				t.Fatal(err)
			}
		}
		use(func(l *StoredSession) error { return l.MarkReady(t.Context()) })
		for range 3 { // use keeps it young
			time.Sleep(29 * time.Minute)
			use(func(l *StoredSession) error {
				if !l.Ready {
					t.Error("that it is initialized was forgotten")
				}
				return l.Touch(t.Context())
			})
		}
		time.Sleep(30 * time.Minute)
		if exists(t, s, id) {
			t.Error("it is still there")
		}
	})
}

// A call, or an open stream, is use, however long it takes: the session does not
// expire below it, nor does it live on because of it.
func TestSessionDoesNotExpireWhileItIsUsed(t *testing.T) {
	for name, initialized := range map[string]bool{"initialized": true, "uninitialized": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newSessions(SessionLimits{})
				id := mustCreate(t, s, principal.Anonymous, "a")
				l := mustOpen(t, s, principal.Anonymous, id)
				if initialized {
					if err := l.MarkReady(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(24 * time.Hour)
				if !exists(t, s, id) {
					t.Fatal("the session expired while it was used")
				}
				l.Release()
				time.Sleep(30 * time.Minute)
				if exists(t, s, id) {
					t.Error("it is still there")
				}
			})
		})
	}
}

// The handshake of a session that was deleted in the middle of it does not bring it back.
func TestDeletedSessionStaysDeleted(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	if err := s.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	if err := l.MarkReady(t.Context()); !errors.Is(err, ErrNoSession) {
		t.Errorf("initialized: %v", err)
	}
	if err := l.Touch(t.Context()); !errors.Is(err, ErrNoSession) {
		t.Errorf("touched: %v", err)
	}
	l.Release()
	if exists(t, s, id) {
		t.Error("it is back")
	}
	if _, err := kv.KV.Get(t.Context(), sessionKey(principal.Anonymous, id)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the store has it: %v", err)
	}
}

func TestInitializedMayBeSaidMoreThanOnce(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	// Another replica has noted it in the meantime.
	other := State{Revision: l.Revision, Info: l.Info, Capabilities: l.Capabilities, Ready: true}
	if _, err := s.store.Put(t.Context(), l.key, other.Encode(), store.PutOptions{TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.MarkReady(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !l.Ready {
		t.Error("it is not noted")
	}
}

func TestDeleteEndsWhatIsInFlight(t *testing.T) {
	server, calls := newServer()
	s := NewSessions(server, store.NewMemory(store.MemoryOptions{}), SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	done := make(chan []byte)
	go func() {
		done <- l.Serve(context.Background(), nil, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), nil)
	}()
	h := <-calls
	if err := s.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	<-h.ctx.Done()
	if out := <-done; len(out) != 0 {
		t.Errorf("it was answered: %s", out)
	}
}

// T11: a session has one standalone stream, and whoever asks for it last has it.
func TestT11NewerStreamTakesOver(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	first, _ := l.Stream()
	select {
	case <-first:
		t.Fatal("the first was taken from the beginning")
	default:
	}
	second, _ := l.Stream()
	<-first
	select {
	case <-second:
		t.Fatal("the second was taken from the beginning")
	default:
	}
	if err := s.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	<-second
	gone, _ := l.Stream()
	<-gone
}

func TestStreamsEndWhenTheServerShutsDown(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	open, _ := l.Stream()
	s.CloseStreams()
	<-open
	late, _ := l.Stream() // came too late to be told
	<-late
	s.CloseStreams()
}

func TestQuotas(t *testing.T) {
	limits := SessionLimits{PerOwner: 2, PerAddress: 3, Total: 6}
	s, _ := newSessions(limits)
	ada, bob := user(t, "ada"), user(t, "bob")
	create := func(who principal.Principal, address string) error {
		_, err := s.Create(t.Context(), who, address, someState)
		return err
	}
	want := func(err error, full bool) {
		t.Helper()
		if errors.Is(err, ErrTooManySessions) != full || err != nil && !full {
			t.Errorf("%v, want full: %v", err, full)
		}
	}
	want(create(ada, "1"), false)
	want(create(ada, "2"), false)
	want(create(ada, "3"), true) // by principal, wherever they are
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), true) // by address, whoever they are
	id := mustCreate(t, s, bob, "1")
	want(create(bob, "1"), true) // by now, all there may be
	want(create(principal.Anonymous, "2"), true)
	if err := s.Delete(t.Context(), bob, id); err != nil {
		t.Fatal(err)
	}
	want(create(principal.Anonymous, "2"), false)
	want(create(principal.Anonymous, "3"), true)
}

func TestDefaultQuotasAreThoseThatAreDocumented(t *testing.T) {
	got := SessionLimits{}.withDefaults()
	want := SessionLimits{Idle: 30 * time.Minute, Uninitialized: 30 * time.Second, PerOwner: 100, PerAddress: 1000, Total: 10000}
	if got != want {
		t.Errorf("%+v", got)
	}
}

// What has expired, of which the store tells nobody, frees its place.
func TestExpiredSessionsFreeTheirPlaces(t *testing.T) {
	for name, limits := range map[string]SessionLimits{
		"of the address": {PerAddress: 3},
		"of the process": {Total: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newSessions(limits)
				var kept string
				for range 3 {
					kept = mustCreate(t, s, principal.Anonymous, "a")
				}
				l := mustOpen(t, s, principal.Anonymous, kept)
				if err := l.MarkReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.Release()
				if _, err := s.Create(t.Context(), principal.Anonymous, "a", someState); !errors.Is(err, ErrTooManySessions) {
					t.Fatal(err)
				}
				time.Sleep(31 * time.Second)
				for range 2 {
					mustCreate(t, s, principal.Anonymous, "a")
				}
				if _, err := s.Create(t.Context(), principal.Anonymous, "a", someState); !errors.Is(err, ErrTooManySessions) {
					t.Errorf("the third: %v", err)
				}
			})
		})
	}
}

// Whoever begins sessions for sport while there is no room does not make the server
// look at all of them each time.
func TestFullQuotaIsCheckedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kv := newSessions(SessionLimits{Total: 50})
		for range 50 {
			mustCreate(t, s, principal.Anonymous, "a")
		}
		refused := func() {
			t.Helper()
			if _, err := s.Create(t.Context(), principal.Anonymous, "b", someState); !errors.Is(err, ErrTooManySessions) {
				t.Fatal(err)
			}
		}
		for range 100 {
			refused()
		}
		if n := kv.gets.Load(); n != 50 {
			t.Errorf("%d lookups", n)
		}
		time.Sleep(time.Second)
		refused()
		if n := kv.gets.Load(); n != 100 {
			t.Errorf("%d lookups after a second", n)
		}
	})
}

func TestSessionThatCannotBeKeptTakesNoPlace(t *testing.T) {
	for cause, full := range map[error]bool{store.ErrFull: true, errors.New("unreachable"): false} {
		s, kv := newSessions(SessionLimits{Total: 1})
		kv.failWith(cause)
		if _, err := s.Create(t.Context(), principal.Anonymous, "a", someState); !errors.Is(err, cause) || errors.Is(err, ErrTooManySessions) != full {
			t.Errorf("%v", err)
		}
		kv.fail.Store(nil)
		mustCreate(t, s, principal.Anonymous, "a")
		if n := kv.gets.Load(); n != 0 {
			t.Errorf("its place was free only after %d lookups", n)
		}
	}
}

// A store that cannot be reached is no proof that the session is gone: the client
// would begin another one.
func TestStoreFailureIsNoMissingSession(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	broken := errors.New("unreachable")
	kv.failWith(broken)
	if _, err := s.Open(t.Context(), principal.Anonymous, id); !errors.Is(err, broken) || errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
	kv.fail.Store(nil)
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	kv.failWith(broken)
	if err := l.MarkReady(t.Context()); !errors.Is(err, broken) || errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
}

func TestStoredNonsenseIsAnError(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	for _, nonsense := range []string{``, `null`, `{}`, `{"revision":"2099-01-01","info":{},"capabilities":{}}`, `{"revision":"2025-11-25","info":{"name":7},"capabilities":{}}`} {
		if _, err := kv.KV.Put(t.Context(), sessionKey(principal.Anonymous, id), []byte(nonsense), store.PutOptions{TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), principal.Anonymous, id); err == nil || errors.Is(err, ErrNoSession) {
			t.Errorf("%s: %v", nonsense, err)
		}
	}
	if len(s.live) != 0 {
		t.Error("it is kept as live")
	}
}

// 5,000 idle sessions cost their bytes in the store and a place in the count: no
// goroutine, no timer, nothing live.
func TestIdleSessionsCostTwoKilobytesAndNoGoroutine(t *testing.T) {
	const n, most = 5000, 2 << 10
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s, _ := newSessions(SessionLimits{PerAddress: n})
	state := State{
		Revision:     mcp.V20251125,
		Info:         []byte(`{"name":"a-client-of-the-usual-kind","title":"A client of the usual kind","version":"1.23.4"}`),
		Capabilities: []byte(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`),
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	for i := range n {
		address := fmt.Sprintf("192.0.2.%d", i%250)
		id, err := s.Create(t.Context(), principal.Anonymous, address, state)
		if err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, s, principal.Anonymous, id)
		if err := l.MarkReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	each := (heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("an idle session costs %d bytes, and may cost %d", each, most)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if len(s.live) != maxCached || s.cache.n != maxCached {
		t.Errorf("%d are live, %d warm", len(s.live), s.cache.n)
	}
	runtime.KeepAlive(s)
}
