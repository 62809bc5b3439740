package httpwire

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

func TestTrackerIsIdleWhenTheLastRequestLeaves(t *testing.T) {
	var tr tracker
	for range 2 {
		if !tr.enter() {
			t.Fatal("refused")
		}
	}
	closing := tr.closingSignal()
	idle := tr.close()
	<-closing
	<-tr.closingSignal()
	if tr.enter() {
		t.Error("it lets in another one")
	}
	tr.leave()
	select {
	case <-idle:
		t.Error("idle with one in flight")
	default:
	}
	tr.leave()
	<-idle
	<-tr.close()
}

func TestTrackerBoundsWhatIsInFlight(t *testing.T) {
	tr := tracker{n: maxRequests - 1}
	if !tr.enter() {
		t.Fatal("refused at the limit")
	}
	if tr.enter() {
		t.Error("one beyond the limit")
	}
	tr.leave()
	if !tr.enter() {
		t.Error("refused though one has left")
	}
}

// A request that arrives while the others are cancelled is cancelled too.
func TestTrackerCancelsTheLateOnesToo(t *testing.T) {
	var tr tracker
	early, cancel := context.WithCancelCause(t.Context())
	tr.watch(&trackedRequest{cancel: cancelFunc(cancel)}, time.Second)
	forgotten, cancel2 := context.WithCancelCause(t.Context())
	f := &trackedRequest{cancel: cancelFunc(cancel2)}
	tr.watch(f, time.Second)
	tr.watch(&trackedRequest{}, time.Second)
	tr.forget(f)
	tr.cancelAll()
	late, cancel3 := context.WithCancelCause(t.Context())
	tr.watch(&trackedRequest{cancel: cancelFunc(cancel3)}, time.Second)
	if !errors.Is(context.Cause(early), errShutdown) || !errors.Is(context.Cause(late), errShutdown) || forgotten.Err() != nil {
		t.Errorf("%v, %v, %v", context.Cause(early), context.Cause(late), forgotten.Err())
	}
	cancel2(nil)
}

func newPair(id, address string, who principal.Principal) *pair {
	return &pair{id: id, address: address, who: who, drain: make(chan struct{}), session: (&legacy.Server{Peers: &rpc.Peers{}}).NewSession(who)}
}

func TestNoPairBeginsWhileTheServerShutsDown(t *testing.T) {
	var p pairs
	early := newPair("1", "a", principal.Anonymous)
	if !p.add(early) {
		t.Fatal("refused")
	}
	p.beginDrain()
	<-early.drain
	p.beginDrain()
	if p.add(newPair("2", "a", principal.Anonymous)) {
		t.Error("another one has begun")
	}
}

func TestPairsOfAnAddressAreBounded(t *testing.T) {
	var p pairs
	var last *pair
	for i := range maxPairsPerAddress {
		last = newPair(string(rune(i)), "a", principal.Anonymous)
		if !p.add(last) {
			t.Fatalf("the %dth is refused", i)
		}
	}
	if p.add(newPair("x", "a", principal.Anonymous)) {
		t.Error("one beyond the limit")
	}
	if !p.add(newPair("y", "b", principal.Anonymous)) {
		t.Error("another address is refused")
	}
	p.remove(last)
	if !p.add(newPair("x", "a", principal.Anonymous)) {
		t.Error("refused though one has ended")
	}
}

// T9, T10: the pair of another principal is none.
func TestT9T10PairIsItsPrincipalsOwn(t *testing.T) {
	ada, err := principal.New("https://issuer.example", "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	var p pairs
	x := newPair("1", "a", ada)
	p.add(x)
	if p.get("1", ada) != x || p.get("1", principal.Anonymous) != nil || p.get("2", ada) != nil {
		t.Error("the wrong one has it")
	}
}

func TestPathIsTheOneThatTheClientKnows(t *testing.T) {
	for uri, want := range map[string]string{
		"/mcp?x=1": "/mcp", "/a%2Fb": "/a%2Fb", "//evil.example/x": "/evil.example/x", "///x": "/x", "http://localhost/mcp": "/inner", "": "/inner", "*": "/inner",
	} {
		r := httptest.NewRequest("GET", "/inner", nil)
		r.RequestURI = uri
		if got := pathOf(r); got != want {
			t.Errorf("%q: %q, want %q", uri, got, want)
		}
	}
}
