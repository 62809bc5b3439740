package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// clock is a clock that is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// limited returns what calls a handler under a limit, and whether it was called.
func limited(t *testing.T, limit rpc.RateLimit) func(c *rpc.Call) error {
	t.Helper()
	handle := rpc.LimitRate(limit)(func(context.Context, *rpc.Call) rpc.Outcome { return rpc.Outcome{Result: &mcp.EmptyResult{}} })
	return func(c *rpc.Call) error { return handle(t.Context(), c).Err }
}

func TestY1CallsBeyondTheBurstAreRefusedUntilTimeHasPassed(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, rpc.RateLimit{PerSecond: 10, Burst: 3, Now: clock.now})
	c := &rpc.Call{Method: mcp.MethodCallTool, Principal: principal.Local}
	for range 3 {
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	var refused *jsonrpc.Error
	if err := do(c); !errors.As(err, &refused) || !strings.Contains(string(refused.Data), `"retryAfterMs":101`) {
		t.Fatalf("the fourth: %v, %s", err, refused.Data)
	}
	clock.advance(101 * time.Millisecond)
	if err := do(c); err != nil {
		t.Errorf("after the time it was told: %v", err)
	}
	if err := do(c); err == nil {
		t.Error("two for one")
	}
	clock.advance(time.Hour)
	passed := 0
	for range 10 {
		if do(c) == nil {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("after a long pause %d at once", passed)
	}
	clock.advance(-time.Hour)
	do(c)
	clock.advance(time.Second)
	if err := do(c); err != nil {
		t.Errorf("a clock that was set back: %v", err)
	}
}

func TestOneCallerDoesNotUseUpWhatAnotherHas(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, rpc.RateLimit{PerSecond: 1, Burst: 1, Now: clock.now})
	ada, err := principal.New("https://issuer.example.com", "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*rpc.Call{
		{Principal: principal.Local}, {Principal: ada}, {Source: "192.0.2.1"}, {Source: "192.0.2.2"},
	} {
		c.Method = mcp.MethodCallTool
		if err := do(c); err != nil {
			t.Errorf("%v %s: %v", c.Principal, c.Source, err)
		}
	}
	// Wherever they are, it is the same principal.
	if err := do(&rpc.Call{Method: mcp.MethodComplete, Principal: ada, Source: "192.0.2.9"}); err == nil {
		t.Error("somebody has two buckets")
	}
	if err := do(&rpc.Call{Method: mcp.MethodListTools, Principal: ada}); err != nil {
		t.Errorf("what is not counted: %v", err)
	}
}

func TestNoLimitIsNone(t *testing.T) {
	do := limited(t, rpc.RateLimit{PerSecond: -1})
	for range 5000 {
		if err := do(&rpc.Call{Method: mcp.MethodCallTool}); err != nil {
			t.Fatal(err)
		}
	}
}
