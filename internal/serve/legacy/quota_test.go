package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

func TestSessionLimits(t *testing.T) {
	limits := SessionLimits{PerOwner: 2, PerAddress: 3, Total: 6}
	s, _ := newSessions(limits)
	ada, bob := user(t, "ada"), user(t, "bob")
	create := func(who principal.Principal, address string) error {
		id, err := s.Create(t.Context(), who, address, someState)
		if err == nil {
			mustOpen(t, s, who, id) // in use, so that no other session displaces it
		}
		return err
	}
	want := func(err error, full bool) {
		t.Helper()
		must.CheckThat(t, errors.Is(err, ErrTooManySessions) == full && (err == nil || full),
			"%v, want limit reached: %v", err, full)
	}
	want(create(ada, "1"), false)
	want(create(ada, "2"), false)
	want(create(ada, "3"), true) // by principal, from all addresses
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), false)
	want(create(principal.Anonymous, "1"), true) // by address, for all anonymous clients
	id := mustCreate(t, s, bob, "1")
	mustOpen(t, s, bob, id)
	want(create(bob, "1"), true) // the total limit is reached
	want(create(principal.Anonymous, "2"), true)
	must.Do(t, s.Delete(t.Context(), bob, id))
	want(create(principal.Anonymous, "2"), false)
	want(create(principal.Anonymous, "3"), true)
}

// A client that begins a session for each of its tasks, and deletes none, is not locked out: a new session ends the one
// of the same owner that has been idle longest, and none with a request or a stream.
func TestNewSessionDisplacesTheLongestIdleOneOfItsOwner(t *testing.T) {
	for name, limits := range map[string]SessionLimits{"principal": {PerOwner: 4}, "address": {PerAddress: 4},
		"total": {Total: 5}} {
		s, _ := newSessions(limits)
		other := mustCreate(t, s, user(t, "bob"), "b")
		who, address := user(t, "ada"), "a"
		if name == "address" {
			who = principal.Anonymous
		}
		var all []string
		for range 4 {
			all = append(all, mustCreate(t, s, who, address))
		}
		mustOpen(t, s, who, all[0]) // a request, or a stream
		mustOpen(t, s, who, all[1]).Release()
		mustOpen(t, s, who, all[2])
		all = append(all, mustCreate(t, s, who, address)) // ends 3, which was never used
		all = append(all, mustCreate(t, s, who, address)) // ends 1
		mustOpen(t, s, who, all[5])
		all = append(all, mustCreate(t, s, who, address)) // ends 4
		var left []int
		for i, id := range all {
			if ss, err := s.Use(t.Context(), who, id, true); err == nil {
				ss.Release()
				left = append(left, i)
			} else if !errors.Is(err, ErrNoSession) {
				t.Error(err)
			}
		}
		must.CheckEqual(t, fmt.Sprint(left), "[0 2 5 6]", name)
		mustOpen(t, s, who, all[6])
		must.CheckIs(t, must.Err(s.Create(t.Context(), who, address, someState)), ErrTooManySessions, name)
		mustOpen(t, s, user(t, "bob"), other).Release()
		must.CheckEqual(t, len(s.quota.sessions), 5, name)
	}
}

// Another replica may have the stream of a session.
func TestSessionWithAStreamAtAnotherReplicaIsNotDisplaced(t *testing.T) {
	s, _ := newSessions(SessionLimits{PerOwner: 2})
	s.Replicas = new(endings)
	ada := user(t, "ada")
	streaming := mustCreate(t, s, ada, "a")
	ss := mustOpen(t, s, ada, streaming)
	must.Do(t, ss.update(t.Context(), func(state *State) error { state.Stream = "replica name"; return nil }))
	ss.Release()
	idle := mustCreate(t, s, ada, "a")
	mustCreate(t, s, ada, "a")
	mustOpen(t, s, ada, streaming).Release()
	must.CheckIs(t, must.Err(s.Use(t.Context(), ada, idle, false)), ErrNoSession, "the idle session")
}

// A client that creates sessions at the limit, each with a few requests, is served for ever, and its owner has no more
// sessions than allowed.
func TestAbandonedSessionsLockNobodyOut(t *testing.T) {
	s, _ := newSessions(SessionLimits{PerOwner: 20})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				id, err := s.Create(t.Context(), user(t, "ada"), "a", someState)
				if err != nil {
					t.Error(err)
					return
				}
				// the other three may have displaced it
				if ss, err := s.Use(t.Context(), user(t, "ada"), id, true); err == nil {
					ss.Release()
				}
			}
		})
	}
	wg.Wait()
	must.CheckEqual(t, len(s.quota.sessions), 20)
}

func TestDefaultSessionLimitsMatchTheDocumentation(t *testing.T) {
	got := SessionLimits{}.withDefaults()
	want := SessionLimits{Idle: 30 * time.Minute, Uninitialized: 30 * time.Second, PerOwner: 100, PerAddress: 1000,
		Total: 10000}
	must.CheckEqual(t, got, want)
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
				must.Do(t, l.MarkReady(t.Context()))
				time.Sleep(31 * time.Second)
				for range 2 {
					mustOpen(t, s, principal.Anonymous, mustCreate(t, s, principal.Anonymous, "a"))
				}
				must.CheckIs(t, must.Err(s.Create(t.Context(), principal.Anonymous, "a", someState)),
					ErrTooManySessions, "the third session")
			})
		})
	}
}

// While a limit is reached, clients cannot make the server check all sessions for each attempt.
func TestSessionsAreCheckedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kv := newSessions(SessionLimits{Total: 50})
		for range 50 {
			mustCreate(t, s, principal.Anonymous, "a")
		}
		mustReject := func() {
			t.Helper()
			must.Is(t, must.Err(s.Create(t.Context(), principal.Anonymous, "b", someState)), ErrTooManySessions)
		}
		for range 100 {
			mustReject()
		}
		must.CheckEqual(t, kv.gets.Load(), 50)
		time.Sleep(time.Second)
		mustReject()
		must.CheckEqual(t, kv.gets.Load(), 100)
	})
}

func TestSessionThatCannotBeStoredDoesNotCount(t *testing.T) {
	for _, cause := range []error{store.ErrFull, errors.New("unreachable")} {
		s, kv := newSessions(SessionLimits{Total: 1})
		kv.failWith(cause)
		_, err := s.Create(t.Context(), principal.Anonymous, "a", someState)
		must.CheckThat(t, errors.Is(err, cause) && !errors.Is(err, ErrTooManySessions), "%v", err)
		kv.fail.Store(nil)
		mustCreate(t, s, principal.Anonymous, "a")
		must.CheckEqual(t, kv.gets.Load(), 0)
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
		Revision: mcp.V20251125,
		Info: []byte(`{"name":"a-client-of-the-usual-kind","title":"A client of the usual kind",` +
			`"version":"1.23.4"}`),
		Capabilities: []byte(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`),
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	for i := range n {
		address := fmt.Sprintf("192.0.2.%d", i%250)
		id := must.Get(s.Create(t.Context(), principal.Anonymous, address, state))(t)
		l := mustOpen(t, s, principal.Anonymous, id)
		must.Do(t, l.MarkReady(t.Context()))
		l.Release()
	}
	each := (heap() - before) / n
	t.Logf("%d bytes each", each)
	must.CheckThat(t, each <= most, "an idle session needs %d bytes, the limit is %d", each, most)
	now := runtime.NumGoroutine()
	must.CheckThat(t, now < goroutines+n, "%d goroutines, %d before", now, goroutines)
	must.CheckEqual(t, len(s.live), n)
	must.CheckEqual(t, s.cache.n, n)
	runtime.KeepAlive(s)
}

func TestStateSurvivesTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := func(name string) []byte {
			raw := must.Get(json.Marshal(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, name)))(t)
			return raw
		}
		want := State{
			Revision:     rapid.SampledFrom(mcp.Revisions()).Draw(t, "revision"),
			Info:         object("info"),
			Capabilities: object("capabilities"),
			Ready:        rapid.Bool().Draw(t, "ready"),
			Subscribed:   rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "subscribed"),
		}
		got, err := DecodeState(want.Encode())
		if err != nil || got.Revision != want.Revision || got.Ready != want.Ready ||
			!bytes.Equal(got.Info, want.Info) ||
			!bytes.Equal(got.Capabilities, want.Capabilities) ||
			!slices.Equal(got.Subscribed, want.Subscribed) {
			t.Fatalf("%s decodes as %+v, %v", want.Encode(), got, err)
		}
	})
}
