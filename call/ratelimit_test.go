package call_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
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
	do := limited(t, call.WithClock(call.RateLimit{PerSecond: 10, Burst: 3}, clock.now))
	c := call.Description{Method: mcp.MethodCallTool, Principal: principal.Local}
	for range 3 {
		must.Do(t, do(c))
	}
	var rejected *jsonrpc.Error
	if err := do(c); !errors.As(err, &rejected) || !strings.Contains(string(rejected.Data), `"retryAfterMs":101`) {
		t.Fatalf("the fourth call: %v, %s", err, rejected.Data)
	}
	clock.advance(101 * time.Millisecond)
	must.Check(t, do(c))
	err := do(c)
	must.CheckThat(t, err != nil, "a second call at once was let through")
	clock.advance(time.Hour)
	passed := 0
	for range 10 {
		if do(c) == nil {
			passed++
		}
	}
	must.CheckEqual(t, passed, 3)
	clock.advance(-time.Hour)
	_ = do(c)
	clock.advance(time.Second)
	must.Check(t, do(c))
}

func TestReadsCountInTheDefaultLimit(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, call.WithClock(call.RateLimit{PerSecond: 1, Burst: 3}, clock.now))
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodComplete, mcp.MethodReadResource} {
		must.Do(t, do(call.Description{Method: method, Principal: principal.Local}))
	}
	must.CheckThat(t, do(call.Description{Method: mcp.MethodReadResource, Principal: principal.Local}) != nil,
		"a read beyond the burst was let through")
}

func TestLimitRateKeepsCallersApart(t *testing.T) {
	clock := &clock{at: time.Unix(1e9, 0)}
	do := limited(t, call.WithClock(call.RateLimit{PerSecond: 1, Burst: 1}, clock.now))
	ada := must.Get(principal.New("https://issuer.example.com", "ada", ""))(t)
	for _, d := range []call.Description{
		{Principal: principal.Local}, {Principal: ada}, {Source: "192.0.2.1"}, {Source: "192.0.2.2"},
	} {
		d.Method = mcp.MethodCallTool
		must.Check(t, do(d), d.Principal, d.Source)
	}
	err := do(call.Description{Method: mcp.MethodComplete, Principal: ada, Source: "192.0.2.9"})
	must.CheckThat(t, err != nil, "a principal has a second bucket at another address")
	must.Check(t, do(call.Description{Method: mcp.MethodListTools, Principal: ada}))
}

func TestLimitRateWithoutALimitLetsEverythingThrough(t *testing.T) {
	do := limited(t, call.RateLimit{PerSecond: -1})
	for range 5000 {
		must.Do(t, do(call.Description{Method: mcp.MethodCallTool}))
	}
}

// rateStore counts operations, and can be made to fail or block.
type rateStore struct {
	store.Store
	operations atomic.Int64
	down       atomic.Bool
	stalls     atomic.Bool // block until the context ends

	mu   sync.Mutex
	keys []string
}

func newRateStore() *rateStore { return &rateStore{Store: store.NewMemory()} }

func (s *rateStore) begin(ctx context.Context, key string) error {
	s.operations.Add(1)
	s.mu.Lock()
	s.keys = append(s.keys, key)
	s.mu.Unlock()
	if s.stalls.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.down.Load() {
		return errors.New("connection refused")
	}
	return nil
}

func (s *rateStore) Get(ctx context.Context, key string) (store.Item, error) {
	if err := s.begin(ctx, key); err != nil {
		return store.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *rateStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := s.begin(ctx, key); err != nil {
		return 0, err
	}
	return s.Store.Put(ctx, key, value, opt)
}

var toolCall = call.Description{Method: mcp.MethodCallTool, Principal: principal.Local}

// limitedReplicas returns functions that make a call at one of n replicas.
func limitedReplicas(t *testing.T, n int, limit call.RateLimit) (all []func(call.Description) error) {
	for range n {
		all = append(all, limited(t, limit))
	}
	return all
}

// Rule Y1: the limit applies to all replicas together. Each may let through a sixteenth of the
// burst more.
func TestReplicasShareARateLimit(t *testing.T) {
	const replicas = 3
	for _, burst := range []int{1, 10, 64, 2000} {
		synctest.Test(t, func(t *testing.T) {
			all := limitedReplicas(t, replicas, call.RateLimit{PerSecond: 500, Burst: burst, KV: newRateStore()})
			passed := 0
			round := func() {
				for i := range 2 * burst {
					if all[i%replicas](toolCall) == nil {
						passed++
					}
				}
			}
			for range 100 { // 10 s in which the caller sends more than it may
				round()
				round()
				time.Sleep(100 * time.Millisecond)
			}
			most := burst + 10*500 + replicas*max(burst/16, 2)
			if least := min(burst, 50) * 100 * 9 / 10; passed > most || passed < least {
				t.Errorf("burst %d: %d calls in 10 s, want %d to %d", burst, passed, least, most)
			}
		})
	}
}

// Concurrent calls of a caller at all replicas stay within the limit.
func TestConcurrentCallsShareARateLimit(t *testing.T) {
	const replicas, burst = 3, 640
	clock := &clock{at: time.Unix(1e9, 0)}
	all := limitedReplicas(t, replicas, call.WithClock(call.RateLimit{PerSecond: 1, Burst: burst, KV: newRateStore()},
		clock.now))
	var passed atomic.Int64
	var callers sync.WaitGroup
	for i := range 12 {
		callers.Go(func() {
			for range burst {
				if all[i%replicas](toolCall) == nil {
					passed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if n := passed.Load(); n < burst || n > burst+replicas*burst/16 {
		t.Errorf("%d calls, want %d to %d", n, burst, burst+replicas*burst/16)
	}
}

func TestFewCallsOfASharedRateLimitNeedTheStore(t *testing.T) {
	shared := newRateStore()
	all := limitedReplicas(t, 3, call.RateLimit{PerSecond: 1000, Burst: 2000, KV: shared})
	for i := range 1500 {
		must.Do(t, all[i%3](toolCall))
	}
	// Each replica writes 8 times, and must read what another has written.
	n := shared.operations.Load()
	must.CheckThat(t, n != 0 && n <= 1500/62*3, "%d operations for 1,500 calls", n)
	alone := newRateStore()
	one := limited(t, call.RateLimit{PerSecond: 1000, Burst: 2000, KV: alone})
	for range 1240 {
		must.Do(t, one(toolCall))
	}
	if n := alone.operations.Load(); n != 1+1240/62 { // it reads once
		t.Errorf("%d operations for 1,240 calls at one replica", n)
	}
}

// Serving must not depend on the store: without it, each replica applies the limit on its own.
func TestSharedRateLimitIsLocalWhileTheStoreFails(t *testing.T) {
	for name, fail := range map[string]func(*rateStore, bool){
		"it is down":          func(s *rateStore, on bool) { s.down.Store(on) },
		"it does not respond": func(s *rateStore, on bool) { s.stalls.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newRateStore()
				var logged syncbuffer.Buffer
				limit := call.RateLimit{PerSecond: 0.01, Burst: 100, KV: shared,
					Logger: slog.New(slog.NewTextHandler(&logged, nil))}
				all := limitedReplicas(t, 2, limit)
				fail(shared, true)
				started := time.Now()
				passed := 0
				for i := range 400 {
					if all[i%2](toolCall) == nil {
						passed++
					}
				}
				waited := time.Since(started)
				must.CheckThat(t, passed == 200 && waited <= 2*time.Second, "%d calls, waited %v", passed, waited)
				n := shared.operations.Load()
				must.CheckThat(t, n == 2 && strings.Count(logged.String(), "cannot share the rate limit") == 2,
					"%d operations; %s", n, logged.String())
				fail(shared, false)
				time.Sleep(6 * time.Second)
				other := limited(t, limit)
				for range 400 {
					_ = other(toolCall)
				}
				must.CheckThat(t, all[0](toolCall) != nil, "the replicas do not share the limit again")
			})
		})
	}
}

// A call that cannot continue without the store does not hang if its client is gone.
func TestSharedRateLimitDoesNotDelayCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newRateStore()
		shared.stalls.Store(true)
		handle := call.LimitRate(call.RateLimit{PerSecond: 1, Burst: 4, KV: shared,
			Logger: slog.New(slog.DiscardHandler)})(
			func(context.Context, *call.Call) (any, error) { return &mcp.EmptyResult{}, nil })
		go func() { _, _ = handle(t.Context(), call.New(toolCall)) }() // this call reports
		synctest.Wait()
		_, _ = handle(t.Context(), call.New(toolCall)) // this one passes in the meantime
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time)
		began := time.Now()
		go func() { _, _ = handle(ctx, call.New(toolCall)); ended <- time.Now() }()
		synctest.Wait()
		cancel()
		if at := <-ended; at.Sub(began) > 0 {
			t.Errorf("the call ended after %v", at.Sub(began))
		}
		time.Sleep(2 * time.Second)
	})
}

// Callers do not share tokens, and keys do not contain session IDs.
func TestSharedRateLimitsOfCallersAreIndependent(t *testing.T) {
	shared := newRateStore()
	limit := call.RateLimit{PerSecond: 0.01, Burst: 3, KV: shared}
	all := limitedReplicas(t, 2, limit)
	ada := must.Get(principal.New("https://issuer.example", "ada", ""))(t)
	for _, d := range []call.Description{
		toolCall, {Method: mcp.MethodCallTool, Principal: ada},
		{Method: mcp.MethodCallTool, Source: "session-1"}, {Method: mcp.MethodCallTool, Source: "session-2"},
	} {
		passed := 0
		for i := range 10 {
			if all[i%2](d) == nil {
				passed++
			}
		}
		must.CheckEqual(t, passed, 3, d.Principal)
	}
	keys := fmt.Sprint(shared.keys)
	must.CheckThat(t, !strings.Contains(keys, "session-") && strings.Contains(keys, ada.Key()+"rate/"),
		"keys: %s", keys)
}

// A replica whose clock is wrong must not empty the buckets of the others.
func TestSharedRateLimitSurvivesAWrongClock(t *testing.T) {
	clock, wrong := &clock{at: time.Unix(1e9, 0)}, &clock{at: time.Unix(1e9, 0).Add(time.Hour)}
	limit := call.WithClock(call.RateLimit{PerSecond: 1, Burst: 3, KV: newRateStore()}, clock.now)
	right := limited(t, limit)
	limit = call.WithClock(limit, wrong.now)
	ahead := limited(t, limit)
	for range 3 {
		_ = ahead(toolCall)
	}
	must.CheckThat(t, right(toolCall) != nil, "the bucket is not shared")
	clock.advance(4 * time.Second)
	must.Check(t, right(toolCall))
}

// Rule R6.
func TestLogCallsWritesOneLineWithoutParametersAndResult(t *testing.T) {
	result := func(result any) call.Handler {
		return func(context.Context, *call.Call) (any, error) { return result, nil }
	}
	fail := func(err error) call.Handler {
		return func(context.Context, *call.Call) (any, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		handler call.Handler
		want    string
	}{
		"attributes": {result(&mcp.CallToolResult{}),
			"level=INFO msg=call method=tools/call name=pay revision=2025-11-25 took="},
		"ok":             {result(&mcp.CallToolResult{}), "outcome=ok"},
		"failed":         {result(&mcp.CallToolResult{IsError: true}), "outcome=failed"},
		"input required": {result(&mcp.InputRequiredResult{}), `outcome="input required"`},
		"protocol error": {fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "hunter2")), `outcome="error -32602"`},
		"internal error": {fail(errors.New("hunter2")), `level=WARN msg=call method=tools/call`},
		"panic":          {func(context.Context, *call.Call) (any, error) { panic("hunter2") }, `outcome=panic`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			handle := call.LogCalls(slog.New(slog.NewTextHandler(&out, nil)))(tt.handler)
			c := call.New(call.Description{
				Method: mcp.MethodCallTool, Revision: mcp.V20251125,
				Params: jsonrpc.MembersOf([]byte(`{"name":"pay","arguments":{"card":"hunter2"}}`)),
			})
			func() {
				defer func() { _ = recover() }()
				_, _ = handle(t.Context(), c)
			}()
			got := out.String()
			must.CheckThat(t, strings.Count(got, "\n") == 1 && strings.Contains(got, tt.want) &&
				!strings.Contains(got, "hunter2"), "logged %q, want %q", got, tt.want)
		})
	}
}
