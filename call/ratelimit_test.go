package call_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// clock is a clock that the test sets.
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

// limited returns a function that makes a call under the limit.
func limited(t *testing.T, limit call.RateLimit) func(d call.Description) error {
	t.Helper()
	handle := call.LimitRate(limit)(func(context.Context, *call.Call) (any, error) { return &mcp.EmptyResult{}, nil })
	return func(d call.Description) error {
		_, err := handle(t.Context(), call.New(d))
		return err
	}
}

// Rule Y1.
func TestLimitRateRejectsCallsBeyondTheBurst(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, call.RateLimit{PerSecond: 10, Burst: 3, Now: clock.now})
	c := call.Description{Method: mcp.MethodCallTool, Principal: principal.Local}
	for range 3 {
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	var rejected *jsonrpc.Error
	if err := do(c); !errors.As(err, &rejected) || !strings.Contains(string(rejected.Data), `"retryAfterMs":101`) {
		t.Fatalf("the fourth call: %v, %s", err, rejected.Data)
	}
	clock.advance(101 * time.Millisecond)
	if err := do(c); err != nil {
		t.Errorf("after the time that the error gave: %v", err)
	}
	if err := do(c); err == nil {
		t.Error("a second call at once was let through")
	}
	clock.advance(time.Hour)
	passed := 0
	for range 10 {
		if do(c) == nil {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d calls at once after a long pause", passed)
	}
	clock.advance(-time.Hour)
	_ = do(c)
	clock.advance(time.Second)
	if err := do(c); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
}

func TestReadsCountInTheDefaultLimit(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, call.RateLimit{PerSecond: 1, Burst: 3, Now: clock.now})
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodComplete, mcp.MethodReadResource} {
		if err := do(call.Description{Method: method, Principal: principal.Local}); err != nil {
			t.Fatal(err)
		}
	}
	if do(call.Description{Method: mcp.MethodReadResource, Principal: principal.Local}) == nil {
		t.Error("a read beyond the burst was let through")
	}
}

func TestLimitRateKeepsCallersApart(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, call.RateLimit{PerSecond: 1, Burst: 1, Now: clock.now})
	ada, err := principal.New("https://issuer.example.com", "ada", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []call.Description{
		{Principal: principal.Local}, {Principal: ada}, {Source: "192.0.2.1"}, {Source: "192.0.2.2"},
	} {
		d.Method = mcp.MethodCallTool
		if err := do(d); err != nil {
			t.Errorf("%v %s: %v", d.Principal, d.Source, err)
		}
	}
	if err := do(call.Description{Method: mcp.MethodComplete, Principal: ada, Source: "192.0.2.9"}); err == nil {
		t.Error("a principal has a second bucket at another address")
	}
	if err := do(call.Description{Method: mcp.MethodListTools, Principal: ada}); err != nil {
		t.Errorf("a method that is not counted: %v", err)
	}
}

func TestLimitRateWithoutALimitLetsEverythingThrough(t *testing.T) {
	do := limited(t, call.RateLimit{PerSecond: -1})
	for range 5000 {
		if err := do(call.Description{Method: mcp.MethodCallTool}); err != nil {
			t.Fatal(err)
		}
	}
}
