package legacy

import (
	"context"
	"errors"
	"regexp"
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

// faultyStore is a store that counts its operations and can be made to fail.
type faultyStore struct {
	store.KV
	gets atomic.Int64
	fail atomic.Pointer[error]
}

func newFaultyStore() *faultyStore { return &faultyStore{KV: store.NewMemory()} }

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
	id := must.Get(s.Create(t.Context(), who, address, someState))(t)
	return id
}

func mustOpen(t *testing.T, s *Sessions, who principal.Principal, id string) *StoredSession {
	t.Helper()
	l := must.Get(s.Use(t.Context(), who, id, false))(t)
	return l
}

// mustStream begins the standalone stream of l.
func mustStream(t *testing.T, l *StoredSession) (replaced <-chan struct{}) {
	t.Helper()
	replaced, _, err := l.Stream(t.Context(), "g")
	must.Do(t, err)
	return replaced
}

// exists reports whether a session can be opened. It does not renew the session.
func exists(t *testing.T, s *Sessions, id string) bool {
	t.Helper()
	l, err := s.Use(t.Context(), principal.Anonymous, id, false)
	if err == nil {
		l.Release()
	} else if !errors.Is(err, ErrNoSession) {
		t.Fatal(err)
	}
	return err == nil
}

// Rule T8.
func TestSessionIDsAreUnguessableAndVisibleASCII(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`) // the characters of 132 bits for 128
	seen := make(map[string]bool)
	for range 1000 {
		id := mustCreate(t, s, principal.Anonymous, "a")
		must.That(t, form.MatchString(id) && !seen[id], "id %q, duplicate: %v", id, seen[id])
		seen[id] = true
	}
}

// Ids of another form are rejected without a look at the store.
// Rule T8.
func TestForgedSessionIDsAreUnknown(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	before := kv.gets.Load()
	for _, forged := range []string{
		"", "x", "../" + id, id + "/", id + "x", id[1:], strings.Repeat("A", 1<<20), "anonymous/session/" + id,
		strings.Repeat("*", 22), strings.Repeat(".", 22), id[:21] + "\n", id[:20] + "\r\n", id[:21] + "\x00",
		"local/session/AAAAAAAAA",
	} {
		must.CheckIs(t, must.Err(s.Use(t.Context(), principal.Anonymous, forged, false)), ErrNoSession, forged)
	}
	must.CheckEqual(t, kv.gets.Load()-before, 0)
	must.CheckIs(t, must.Err(s.Use(t.Context(), principal.Anonymous, strings.Repeat("A", 22), false)), ErrNoSession)
}

// The keys of the store do not reveal session ids.
func TestStoreKeysDoNotRevealSessionIDs(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	for _, who := range []principal.Principal{principal.Anonymous, user(t, "ada")} {
		id := mustCreate(t, s, who, "a")
		l := must.Get(s.Use(t.Context(), who, id, false))(t)
		if !strings.HasPrefix(l.Key(), who.Key()+"session/") || strings.Contains(l.Key(), id) {
			t.Errorf("the session %s has the key %s", id, l.Key())
		}
		l.Release()
	}
}

// Rules T9, T10: an id opens a session for its principal only. For others the session does not
// exist.
func TestSessionBelongsToItsPrincipal(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	ada, bob := user(t, "ada"), user(t, "bob")
	all := []principal.Principal{ada, bob, principal.Anonymous, principal.Local}
	for _, owner := range all {
		id := mustCreate(t, s, owner, "a")
		for _, other := range all {
			l, err := s.Use(t.Context(), other, id, false)
			switch {
			case other == owner && err != nil:
				t.Errorf("%s cannot open the session: %v", owner, err)
			case other == owner:
				l.Release()
			case !errors.Is(err, ErrNoSession):
				t.Errorf("%s can open the session of %s: %v", other, owner, err)
			}
			if other != owner {
				must.Check(t, s.Delete(t.Context(), other, id))
			}
		}
		if l, err := s.Use(t.Context(), owner, id, false); err != nil {
			t.Errorf("another principal has deleted the session of %s", owner)
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
	must.CheckThat(t, l.ID == id && l.Revision == someState.Revision && l.peer.Info.Name == "c" && !l.Ready &&
		l.Initialized(), "%+v", l.State)
	again := mustOpen(t, s, principal.Anonymous, id)
	defer again.Release()
	must.CheckEqual(t, again, l)
}

func TestUninitializedSessionEndsAfterThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSessions(SessionLimits{})
		id := mustCreate(t, s, principal.Anonymous, "a")
		time.Sleep(29 * time.Second)
		must.CheckThat(t, exists(t, s, id), "the session ended early")
		time.Sleep(time.Second)
		must.CheckThat(t, !exists(t, s, id), "the session has not ended")
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
			must.Do(t, f(l))
		}
		use(func(l *StoredSession) error { return l.MarkReady(t.Context()) })
		for range 3 { // use renews the session
			time.Sleep(29 * time.Minute)
			use(func(l *StoredSession) error {
				must.CheckThat(t, l.Ready, "notifications/initialized is forgotten")
				return l.Touch(t.Context())
			})
		}
		time.Sleep(30 * time.Minute)
		must.CheckThat(t, !exists(t, s, id), "the session has not ended")
	})
}

// A long call or an open stream is use: the session does not expire. After its end, the
// idle limit applies again.
func TestSessionDoesNotExpireWhileItIsUsed(t *testing.T) {
	for name, initialized := range map[string]bool{"initialized": true, "uninitialized": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newSessions(SessionLimits{})
				id := mustCreate(t, s, principal.Anonymous, "a")
				l := mustOpen(t, s, principal.Anonymous, id)
				if initialized {
					must.Do(t, l.MarkReady(t.Context()))
				}
				time.Sleep(24 * time.Hour)
				must.That(t, exists(t, s, id), "the session expired while it was used")
				l.Release()
				time.Sleep(30 * time.Minute)
				must.CheckThat(t, !exists(t, s, id), "the session has not ended")
			})
		})
	}
}

// If a session is deleted during its handshake, the handshake does not restore it.
func TestDeletedSessionStaysDeleted(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	must.Do(t, s.Delete(t.Context(), principal.Anonymous, id))
	must.CheckIs(t, l.MarkReady(t.Context()), ErrNoSession)
	must.CheckIs(t, l.Touch(t.Context()), ErrNoSession)
	l.Release()
	must.CheckThat(t, !exists(t, s, id), "the session exists again")
	must.CheckIs(t, must.Err(kv.KV.Get(t.Context(), sessionKey(principal.Anonymous, id))), store.ErrNotFound)
}

func TestMarkReadyMayBeRepeated(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	// Another replica has stored it meanwhile.
	other := State{Revision: l.Revision, Info: someState.Info, Capabilities: someState.Capabilities, Ready: true}
	must.Get(s.store.Put(t.Context(), l.key, other.Encode(), store.PutOptions{TTL: time.Minute}))(t)
	for range 2 {
		must.Check(t, l.MarkReady(t.Context()))
	}
	must.CheckThat(t, l.Ready, "the session is not ready")
}

func TestDeleteCancelsRequestsInFlight(t *testing.T) {
	server, calls := newServer()
	s := NewSessions(server, store.NewMemory(), SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	done := make(chan []byte)
	go func() {
		done <- serve(context.Background(), l.Session, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), nil)
	}()
	h := <-calls
	must.Do(t, s.Delete(t.Context(), principal.Anonymous, id))
	<-h.ctx.Done()
	out := <-done
	must.CheckEqual(t, len(out), 0, "the cancelled request has a response", out)
}

// Rule T11: a session has one standalone stream, and a newer one replaces it.
func TestNewerStreamReplacesAnOlderOne(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	first := mustStream(t, l)
	select {
	case <-first:
		t.Fatal("the first stream was replaced at once")
	default:
	}
	second := mustStream(t, l)
	<-first
	select {
	case <-second:
		t.Fatal("the second stream was replaced at once")
	default:
	}
	must.Do(t, s.Delete(t.Context(), principal.Anonymous, id))
	<-second
	gone := mustStream(t, l)
	<-gone
}

func TestStreamsEndWhenTheServerShutsDown(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	open := mustStream(t, l)
	s.CloseStreams()
	<-open
	late := mustStream(t, l) // opened after CloseStreams
	<-late
	s.CloseStreams()
}

// A session has not ended because the store fails: the client would create another one.
func TestStoreFailureDiffersFromAMissingSession(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	broken := errors.New("unreachable")
	kv.failWith(broken)
	if _, err := s.Use(t.Context(), principal.Anonymous, id, false); !errors.Is(err, broken) || errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
	kv.fail.Store(nil)
	l := mustOpen(t, s, principal.Anonymous, id)
	defer l.Release()
	kv.failWith(broken)
	err := l.MarkReady(t.Context())
	must.CheckThat(t, errors.Is(err, broken) && !errors.Is(err, ErrNoSession), "%v", err)
}

func TestASessionWithAMalformedRecordDoesNotExist(t *testing.T) {
	s, kv := newSessions(SessionLimits{})
	id := mustCreate(t, s, principal.Anonymous, "a")
	for _, nonsense := range []string{``, `null`, `{}`, `{"revision":"2099-01-01","info":{},"capabilities":{}}`,
		`{"revision":"2025-11-25","info":{"name":7},"capabilities":{}}`,
		`{"revision":"2025-11-25","info":{"name":"c","version":"1"},"capabilities":{},"subscribed":{}}`,
		`{"revision":"2025-11-25","info":{"name":"c","version":"1"},"capabilities":{},"subscribed":[7]}`,
		`{"revision":"2025-11-25","info":{"name":"c","version":"1"},"capabilities":{},"streams":[]}`,
	} {
		must.Do(t, must.Err(kv.KV.Put(t.Context(), sessionKey(principal.Anonymous, id), []byte(nonsense),
			store.PutOptions{TTL: time.Minute})))
		must.CheckIs(t, must.Err(s.Use(t.Context(), principal.Anonymous, id, false)), ErrNoSession, nonsense)
	}
	must.CheckEqual(t, len(s.live), 0)
}
