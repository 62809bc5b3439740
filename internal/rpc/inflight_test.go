package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// J2: the second is refused, the first still gets its answer.
func TestADuplicateIDInFlightIsRefused(t *testing.T) {
	var inflight rpc.Inflight
	served := 0
	var e *rpc.Engine
	e = serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		served++
		second := string(inflight.AppendReply(t.Context(), nil, e, newCall(1), nil))
		if !strings.Contains(second, `"id":1,"error":{"code":-32600`) {
			t.Errorf("the second got %s", second)
		}
		if ctx.Err() != nil {
			t.Error("the first was disturbed")
		}
		return done("first")
	})
	first := string(inflight.AppendReply(t.Context(), nil, e, newCall(1), nil))
	if !strings.Contains(first, `"first"`) || served != 1 {
		t.Errorf("the first of %d got %s", served, first)
	}
	if again := string(inflight.AppendReply(t.Context(), nil, serving(new(log), func(context.Context, *rpc.Call) (any, error) {
		return done("again")
	}), newCall(1), nil)); !strings.Contains(again, `"again"`) {
		t.Errorf("an id that is free again got %s", again)
	}
}

func TestIDsDifferByTypeToo(t *testing.T) {
	var inflight rpc.Inflight
	for _, id := range []jsonrpc.ID{jsonrpc.IntID(1), jsonrpc.StringID("1"), jsonrpc.IntID(9007199254740993), jsonrpc.IntID(9007199254740992)} {
		if _, err := inflight.Begin(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		defer inflight.End(id)
	}
	if n := inflight.Len(); n != 4 {
		t.Errorf("%d in flight", n)
	}
}

func TestOnlySoManyAreInFlight(t *testing.T) {
	inflight := rpc.Inflight{Max: 2}
	for i := range int64(2) {
		if _, err := inflight.Begin(t.Context(), jsonrpc.IntID(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := inflight.Begin(t.Context(), jsonrpc.IntID(3)); !errors.Is(err, rpc.ErrTooManyInFlight) {
		t.Errorf("got %v", err)
	}
	inflight.Cancel(jsonrpc.IntID(0), call.ErrCancelled)
	if _, err := inflight.Begin(t.Context(), jsonrpc.IntID(3)); !errors.Is(err, rpc.ErrTooManyInFlight) {
		t.Errorf("a cancelled request counts until its handler is done, but: %v", err)
	}
	inflight.End(jsonrpc.IntID(0))
	if _, err := inflight.Begin(t.Context(), jsonrpc.IntID(3)); err != nil {
		t.Error(err)
	}
	inflight.End(jsonrpc.IntID(1))
	inflight.End(jsonrpc.IntID(3))
}

// J15: what is unknown, finished or cancelled already is ignored.
func TestCancellationsOfWhatIsNotInFlightAreIgnored(t *testing.T) {
	var inflight rpc.Inflight
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled) // nothing has ever been in flight
	inflight.Cancel(jsonrpc.ID{}, call.ErrCancelled)
	ctx, err := inflight.Begin(t.Context(), jsonrpc.IntID(1))
	if err != nil {
		t.Fatal(err)
	}
	inflight.Cancel(jsonrpc.StringID("1"), call.ErrCancelled)
	inflight.Cancel(jsonrpc.IntID(2), call.ErrCancelled)
	if ctx.Err() != nil {
		t.Error("another's cancellation ended the request")
	}
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled)
	inflight.Cancel(jsonrpc.IntID(1), errors.New("twice"))
	if cause := context.Cause(ctx); !errors.Is(cause, call.ErrCancelled) {
		t.Errorf("the cause is %v", cause)
	}
	if inflight.End(jsonrpc.IntID(1)) {
		t.Error("a response is wanted")
	}
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled)
	if inflight.End(jsonrpc.IntID(1)) {
		t.Error("a response is wanted for what was never begun")
	}
}

// J15, I2: of a cancellation and a response that race, one wins, and the response
// is sent or is not.
func TestCancellationAndResponseRaceSafely(t *testing.T) {
	var inflight rpc.Inflight
	e := serving(new(log), func(context.Context, *rpc.Call) (any, error) { return done("x") })
	for i := range int64(1000) {
		var wg sync.WaitGroup
		var reply []byte
		c := newCall(i)
		wg.Go(func() { inflight.Cancel(c.ID(), call.ErrCancelled) })
		wg.Go(func() { reply = inflight.AppendReply(t.Context(), nil, e, c, nil) })
		wg.Wait()
		if len(reply) > 0 && (jsonrpc.Check(reply, jsonrpc.Limits{}) != nil || !strings.HasSuffix(string(reply), "}}")) {
			t.Fatalf("torn reply: %s", reply)
		}
		if n := inflight.Len(); n != 0 {
			t.Fatalf("%d in flight", n)
		}
	}
}

func TestCancelAllEndsEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inflight rpc.Inflight
		gone := errors.New("gone")
		e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return done("late")
		})
		var wg sync.WaitGroup
		for i := range int64(10) {
			wg.Go(func() {
				if reply := inflight.AppendReply(t.Context(), []byte("x"), e, newCall(i), nil); string(reply) != "x" {
					t.Errorf("answered %s", reply)
				}
			})
		}
		synctest.Wait()
		inflight.CancelAll(gone)
		wg.Wait()
		inflight.CancelAll(gone)
		if n := inflight.Len(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}
