package legacy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// replicas returns two processes that share a store.
func replicas() (here, there *Sessions) {
	here, kv := newSessions(SessionLimits{})
	return here, NewSessions(here.server, kv, SessionLimits{})
}

func TestSessionIsCachedForItsNextRequest(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id, other := mustCreate(t, s, principal.Anonymous, "a"), mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	l.Release()
	mustOpen(t, s, principal.Anonymous, other).Release()
	for range 3 {
		again := mustOpen(t, s, principal.Anonymous, id)
		must.Equal(t, again, l)
		must.CheckThat(t, s.cache.n == 1 && s.cache.oldest.ID == other,
			"%d sessions are cached while the session is in use", s.cache.n)
		again.Release()
		must.CheckEqual(t, s.cache.n, 2)
		must.CheckEqual(t, s.cache.newest, l)
	}
	must.Do(t, s.Delete(t.Context(), principal.Anonymous, id))
	must.CheckThat(t, s.cache.n == 1 && len(s.live) == 1 && s.cache.oldest == s.cache.newest,
		"%d sessions are cached after the end, %d in memory", s.cache.n, len(s.live))
}

// endings collects the keys of sessions that have ended.
type endings struct {
	Replicas
	keys []string
}

func (e *endings) Ended(session string) { e.keys = append(e.keys, session) }

func TestTheOtherReplicasForgetASessionThatHasEnded(t *testing.T) {
	here, there := replicas()
	ended := new(endings)
	here.Replicas = ended
	id := mustCreate(t, here, principal.Anonymous, "a")
	mustOpen(t, there, principal.Anonymous, id).Release()
	must.Do(t, here.Delete(t.Context(), principal.Anonymous, id))
	for _, key := range ended.keys {
		there.Forget(key)
	}
	if there.Forget("unknown"); len(there.live) != 0 || there.cache.n != 0 || len(there.byKey) != 0 {
		t.Errorf("%d in memory, %d cached", len(there.live), there.cache.n)
	}
}

func TestCachedSessionAdoptsChangesOfOtherReplicas(t *testing.T) {
	here, there := replicas()
	id := mustCreate(t, here, principal.Anonymous, "a")
	mustOpen(t, here, principal.Anonymous, id).Release()
	other := mustOpen(t, there, principal.Anonymous, id)
	must.Do(t, errors.Join(other.MarkReady(t.Context()), other.storeLevel(t.Context(), mcp.LevelError)))
	other.Release()
	l := mustOpen(t, here, principal.Anonymous, id)
	if !l.Ready || !l.subscriptions.ready || l.level.get() != mcp.LevelError {
		t.Errorf("ready %v and %v, level %s", l.Ready, l.subscriptions.ready, l.level.get())
	}
	l.Release()
	must.CheckEqual(t, len(here.live), 1)
	must.CheckEqual(t, here.cache.n, 1)

	must.Do(t, there.Delete(t.Context(), principal.Anonymous, id))
	must.CheckIs(t, must.Err(here.Use(t.Context(), principal.Anonymous, id, false)), ErrNoSession, "after the end")
	must.CheckEqual(t, len(here.live), 0)
	must.CheckEqual(t, here.cache.n, 0)
}

// A session that is in use, by an early stream for example, also adopts changes of other replicas.
func TestSessionInUseAdoptsChangesOfOtherReplicas(t *testing.T) {
	here, there := replicas()
	id := mustCreate(t, here, principal.Anonymous, "a")
	early := mustOpen(t, here, principal.Anonymous, id)
	defer early.Release()
	other := mustOpen(t, there, principal.Anonymous, id)
	defer other.Release()
	must.Do(t, errors.Join(other.MarkReady(t.Context()), other.storeLevel(t.Context(), mcp.LevelError)))
	l := mustOpen(t, here, principal.Anonymous, id)
	defer l.Release()
	if l != early || !l.Ready || !l.subscriptions.ready || l.level.get() != mcp.LevelError {
		t.Errorf("the same session %v, ready %v and %v, level %s", l == early, l.Ready, l.subscriptions.ready,
			l.level.get())
	}
}

// blockingStore is a store whose Touch blocks until answers is set.
type blockingStore struct {
	store.KV
	touching atomic.Int32
	answers  atomic.Bool
}

func (s *blockingStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	if s.answers.Load() {
		return s.KV.Touch(ctx, key, ttl)
	}
	s.touching.Add(1)
	defer s.touching.Add(-1)
	<-ctx.Done()
	return store.Item{}, ctx.Err()
}

// Sessions in use are renewed by few goroutines, and a store that does not answer delays
// all of them together by one time-out.
func TestAStoreThatDoesNotAnswerDelaysRenewalsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kv := newSessions(SessionLimits{})
		slow := &blockingStore{KV: kv}
		s.store = slow
		var all []*StoredSession
		for range 100 {
			all = append(all, mustOpen(t, s, principal.Anonymous, mustCreate(t, s, principal.Anonymous, "a")))
		}
		for range 12 {
			time.Sleep(time.Second)
			synctest.Wait()
			n := slow.touching.Load()
			must.That(t, n <= maxRenewals, "%d goroutines wait for the store", n)
		}
		slow.answers.Store(true) // in time for all sessions
		time.Sleep(15 * time.Second)
		synctest.Wait()
		for _, l := range all {
			if _, err := kv.Get(t.Context(), l.key); err != nil {
				t.Errorf("a session in use has expired: %v", err)
				break
			}
			l.Release()
		}
		time.Sleep(time.Hour)
	})
}

func TestCacheEvictsTheLeastRecentlyUsedSession(t *testing.T) {
	// Sessions are not used for longer than they live, if the machine is slow.
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSessions(SessionLimits{PerAddress: maxCached, Total: maxCached + 1})
		var ids []string
		for range maxCached {
			ids = append(ids, mustCreate(t, s, principal.Anonymous, "a"+string(rune('a'+len(ids)%4))))
			mustOpen(t, s, principal.Anonymous, ids[len(ids)-1]).Release()
		}
		first := mustOpen(t, s, principal.Anonymous, ids[0])
		first.Release()
		mustOpen(t, s, principal.Anonymous, mustCreate(t, s, principal.Anonymous, "z")).Release()
		must.CheckEqual(t, len(s.live), maxCached)
		must.CheckEqual(t, s.cache.n, maxCached)
		must.CheckEqual(t, s.live[first.sessionRef], first)
		must.CheckThat(t, s.live[sessionRef{principal.Anonymous, ids[1]}] == nil,
			"the least recently used session is still cached")
	})
}

// countingStore counts its operations.
type countingStore struct {
	store.KV
	gets, touches int
}

func (s *countingStore) Get(ctx context.Context, key string) (store.Item, error) {
	s.gets++
	return s.KV.Get(ctx, key)
}

func (s *countingStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	s.touches++
	return s.KV.Touch(ctx, key, ttl)
}

// A remote store makes every operation expensive.
func TestUseOfACachedSessionNeedsOneStoreOperation(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	asked := &countingStore{KV: kv}
	s.store = asked
	id := mustCreate(t, s, principal.Anonymous, "a")
	for i, want := range []countingStore{{touches: 1}, {touches: 1}, {touches: 1}} {
		asked.gets, asked.touches = 0, 0
		l := must.Get(s.Use(t.Context(), principal.Anonymous, id, true))(t)
		l.Release()
		must.CheckEqual(t, asked.gets, want.gets, i+1)
		must.CheckEqual(t, asked.touches, want.touches, i+1)
	}
	must.Do(t, s.Delete(t.Context(), principal.Anonymous, id))
	must.CheckIs(t, must.Err(s.Use(t.Context(), principal.Anonymous, id, true)), ErrNoSession, "after the end")
}

func TestMarkReadyOfANewSessionOnlyWrites(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	asked := &countingStore{KV: kv}
	s.store = asked
	l := must.Get(s.MarkReady(t.Context(), principal.Anonymous, mustCreate(t, s, principal.Anonymous, "a")))(t)
	must.CheckThat(t, l.Ready && l.subscriptions.ready, "%+v", l.State)
	l.Release()
	must.CheckEqual(t, asked.gets+asked.touches, 0)
	must.CheckEqual(t, len(l.record), 0, "the record of a session that is ready stays in memory")
}

func TestTheLongRecordOfANewSessionDoesNotStayInMemory(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	asked := &countingStore{KV: kv}
	s.store = asked
	state := someState
	state.Capabilities = []byte(`{"experimental":{"a":"` + strings.Repeat("x", maxCachedRecord) + `"}}`)
	id := must.Get(s.Create(t.Context(), principal.Anonymous, "a", state))(t)
	must.CheckEqual(t, len(s.cache.newest.record), 0)
	l := must.Get(s.MarkReady(t.Context(), principal.Anonymous, id))(t)
	must.CheckThat(t, l.Ready, "%+v", l.State)
	l.Release()
	must.CheckEqual(t, asked.gets, 1)
}

func TestMarkReadyFindsWhatAnotherReplicaHasDone(t *testing.T) {
	here, there := replicas()
	id := mustCreate(t, here, principal.Anonymous, "a")
	must.Get(there.MarkReady(t.Context(), principal.Anonymous, id))(t).Release()
	must.Do(t, use(t, there, id, func(l *StoredSession) error { return l.storeLevel(t.Context(), mcp.LevelError) }))
	must.Get(here.MarkReady(t.Context(), principal.Anonymous, id))(t).Release()
	l := mustOpen(t, here, principal.Anonymous, id)
	must.CheckEqual(t, l.level.get(), mcp.LevelError, "the level that the client has set at another replica")
	l.Release()

	ended := mustCreate(t, here, principal.Anonymous, "a")
	must.Do(t, there.Delete(t.Context(), principal.Anonymous, ended))
	must.CheckIs(t, must.Err(here.MarkReady(t.Context(), principal.Anonymous, ended)), ErrNoSession)
	must.CheckEqual(t, len(here.live), 1, "sessions in memory")
	must.CheckIs(t, must.Err(here.MarkReady(t.Context(), user(t, "ada"), id)), ErrNoSession, "another principal")
}
