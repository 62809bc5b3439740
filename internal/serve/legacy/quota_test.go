package legacy

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

func TestSessionLimits(t *testing.T) {
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
			t.Errorf("%v, want limit reached: %v", err, full)
		}
	}
	want(create(ada, "1"), false)
	want(create(ada, "2"), false)
	want(create(ada, "3"), true) // by principal, from all addresses
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), true) // by address, for all anonymous clients
	id := mustCreate(t, s, bob, "1")
	want(create(bob, "1"), true) // the total limit is reached
	want(create(principal.Anonymous, "2"), true)
	if err := s.Delete(t.Context(), bob, id); err != nil {
		t.Fatal(err)
	}
	want(create(principal.Anonymous, "2"), false)
	want(create(principal.Anonymous, "3"), true)
}

func TestDefaultSessionLimitsMatchTheDocumentation(t *testing.T) {
	got := SessionLimits{}.withDefaults()
	want := SessionLimits{Idle: 30 * time.Minute, Uninitialized: 30 * time.Second, PerOwner: 100, PerAddress: 1000, Total: 10000}
	if got != want {
		t.Errorf("%+v", got)
	}
}

// The store does not report expired sessions. They must not count.
func TestExpiredSessionsDoNotCount(t *testing.T) {
	for name, limits := range map[string]SessionLimits{
		"per address": {PerAddress: 3},
		"in total":    {Total: 3},
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
					t.Errorf("the third session: %v", err)
				}
			})
		})
	}
}

// While a limit is reached, clients cannot make the server check all sessions for each
// attempt.
func TestSessionsAreCheckedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kv := newSessions(SessionLimits{Total: 50})
		for range 50 {
			mustCreate(t, s, principal.Anonymous, "a")
		}
		mustReject := func() {
			t.Helper()
			if _, err := s.Create(t.Context(), principal.Anonymous, "b", someState); !errors.Is(err, ErrTooManySessions) {
				t.Fatal(err)
			}
		}
		for range 100 {
			mustReject()
		}
		if n := kv.gets.Load(); n != 50 {
			t.Errorf("%d checks", n)
		}
		time.Sleep(time.Second)
		mustReject()
		if n := kv.gets.Load(); n != 100 {
			t.Errorf("%d checks after a second", n)
		}
	})
}

func TestSessionThatCannotBeStoredDoesNotCount(t *testing.T) {
	for _, cause := range []error{store.ErrFull, errors.New("unreachable")} {
		s, kv := newSessions(SessionLimits{Total: 1})
		kv.failWith(cause)
		if _, err := s.Create(t.Context(), principal.Anonymous, "a", someState); !errors.Is(err, cause) || errors.Is(err, ErrTooManySessions) {
			t.Errorf("%v", err)
		}
		kv.fail.Store(nil)
		mustCreate(t, s, principal.Anonymous, "a")
		if n := kv.gets.Load(); n != 0 {
			t.Errorf("the session counts until %d checks", n)
		}
	}
}

// 5,000 idle sessions, all of them cached, need little memory, and no goroutines and no timers.
func TestIdleSessionsNeedTwoKilobytesAndNoGoroutine(t *testing.T) {
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
		t.Errorf("an idle session needs %d bytes, the limit is %d", each, most)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if len(s.live) != n || s.cache.n != n {
		t.Errorf("%d sessions in memory, %d cached, want %d", len(s.live), s.cache.n, n)
	}
	runtime.KeepAlive(s)
}
