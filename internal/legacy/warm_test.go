package legacy

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// replicas are two processes that share a store.
func replicas() (here, there *Sessions) {
	here, kv := newSessions(SessionLimits{})
	return here, NewSessions(here.server, kv, SessionLimits{})
}

func TestSessionIsWarmForItsNextRequest(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	id, other := mustCreate(t, s, principal.Anonymous, "a"), mustCreate(t, s, principal.Anonymous, "a")
	l := mustOpen(t, s, principal.Anonymous, id)
	l.Release()
	mustOpen(t, s, principal.Anonymous, other).Release()
	for range 3 {
		again := mustOpen(t, s, principal.Anonymous, id)
		if again != l {
			t.Fatal("it was made anew")
		}
		if s.warm.n != 1 || s.warm.first.ID != other {
			t.Errorf("%d are warm while it is in use", s.warm.n)
		}
		again.Release()
		if s.warm.n != 2 || s.warm.last != l {
			t.Errorf("%d are warm afterwards", s.warm.n)
		}
	}
	if err := s.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	if s.warm.n != 1 || len(s.live) != 1 || s.warm.first != s.warm.last {
		t.Errorf("%d are warm when it has ended, %d live", s.warm.n, len(s.live))
	}
}

func TestWarmSessionHearsWhatOtherReplicasWereTold(t *testing.T) {
	here, there := replicas()
	id := mustCreate(t, here, principal.Anonymous, "a")
	mustOpen(t, here, principal.Anonymous, id).Release()
	told := mustOpen(t, there, principal.Anonymous, id)
	if err := errors.Join(told.Initialized(t.Context()), told.keepLevel(t.Context(), mcp.LevelError)); err != nil {
		t.Fatal(err)
	}
	told.Release()
	l := mustOpen(t, here, principal.Anonymous, id)
	if !l.Ready || !l.subscriptions.ready || l.level.get() != mcp.LevelError {
		t.Errorf("ready %v and %v, level %s", l.Ready, l.subscriptions.ready, l.level.get())
	}
	l.Release()
	if len(here.live) != 1 || here.warm.n != 1 {
		t.Errorf("%d live, %d warm", len(here.live), here.warm.n)
	}

	if err := there.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Open(t.Context(), principal.Anonymous, id); !errors.Is(err, ErrNoSession) {
		t.Errorf("after its end: %v", err)
	}
	if len(here.live) != 0 || here.warm.n != 0 {
		t.Errorf("after its end: %d live, %d warm", len(here.live), here.warm.n)
	}
}

func TestWarmSessionsAreBoundedAndTheLastUsedStay(t *testing.T) {
	s, _ := newSessions(SessionLimits{})
	var ids []string
	for range maxWarm {
		ids = append(ids, mustCreate(t, s, principal.Anonymous, "a"+string(rune('a'+len(ids)%4))))
		mustOpen(t, s, principal.Anonymous, ids[len(ids)-1]).Release()
	}
	first := mustOpen(t, s, principal.Anonymous, ids[0])
	first.Release()
	mustOpen(t, s, principal.Anonymous, mustCreate(t, s, principal.Anonymous, "z")).Release()
	if len(s.live) != maxWarm || s.warm.n != maxWarm {
		t.Errorf("%d live, %d warm", len(s.live), s.warm.n)
	}
	if s.live[first.key] != first {
		t.Error("the one that was used again is gone")
	}
	if s.live[sessionKey(principal.Anonymous, ids[1])] != nil {
		t.Error("the one that was unused for longest has stayed")
	}
}
