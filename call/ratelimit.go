package call

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// RateLimit configures [LimitRate].
type RateLimit struct {
	PerSecond float64 // calls per second on average; 0 or less means no limit
	Burst     int     // calls at once after a pause; less than 1 means 1
	// Name names what is counted in the errors, as in "too many calls". Empty means calls.
	Name string
	// Methods are the methods that are counted, all together. Nil means tools/call,
	// completion/complete, resources/read and the requests about tasks (2026-07-28, server/tools,
	// Security; server/utilities/completion; 2025-11-25, basic/utilities/tasks, Security
	// Considerations).
	Methods []string
	Now     func() time.Time // nil means time.Now

	// KV, if set, makes replicas with the same limit and the same KV count the calls of a caller
	// together. A replica writes to the KV once for Burst/32 calls of a caller, or for each call if
	// Burst is less than 64. It may let Burst/16 calls more through than the limit allows, or two if
	// Burst is less than 32. If the KV fails, each replica uses the limit alone for 5 seconds. The
	// clocks of the replicas must not differ by more than a second.
	KV store.KV
	// Logger receives the errors of KV. Nil means slog.Default().
	Logger *slog.Logger
}

// LimitRate returns middleware that limits the rate of calls of each caller. It rejects a call
// beyond the limit with an *[OverloadError].
//
// A caller is a principal. Callers that are not authenticated are distinguished by
// [Call.Source], so that one of them cannot use up the limit of the others.
//
// LimitRate tracks at most 10,000 callers. When there are more, it forgets those that have not
// called recently, and then others. A caller that was forgotten starts with a full burst.
func LimitRate(limit RateLimit) Middleware {
	if limit.PerSecond <= 0 {
		return func(next Handler) Handler { return next }
	}
	limit.Burst = max(limit.Burst, 1)
	if limit.Methods == nil {
		limit.Methods = []string{
			mcp.MethodCallTool, mcp.MethodComplete, mcp.MethodReadResource,
			mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodUpdateTask, mcp.MethodCancelTask, mcp.MethodListTasks,
		}
	}
	if limit.Now == nil {
		limit.Now = time.Now
	}
	b := &buckets{limit: limit, callers: make(map[caller]*bucket)}
	if limit.KV != nil {
		b.shared = newSharedRate(limit)
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (any, error) {
			if slices.Contains(limit.Methods, c.Method()) {
				if wait := b.take(ctx, callerOf(c)); wait > 0 {
					return nil, &OverloadError{Limit: cmp.Or(limit.Name, "calls"), RetryAfter: wait.Round(time.Millisecond) + time.Millisecond}
				}
			}
			return next(ctx, c)
		}
	}
}

// caller identifies a caller.
type caller struct {
	who    principal.Principal
	source string // only of callers that are not authenticated
}

func callerOf(c *Call) caller {
	if c.Principal() == principal.Anonymous {
		return caller{source: c.Source()}
	}
	return caller{who: c.Principal()}
}

// maxCallers limits how many callers are tracked.
const maxCallers = 10_000

// buckets holds the token buckets of all callers.
type buckets struct {
	limit  RateLimit
	shared *sharedRate // nil if the limit is not shared

	mu      sync.Mutex
	callers map[caller]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time // when tokens was computed
	shared *sharedBucket
}

// take removes a token from a caller's bucket, or returns the time until there is one.
func (b *buckets) take(ctx context.Context, from caller) (wait time.Duration) {
	of, wait := b.takeLocal(from)
	if wait > 0 || b.shared == nil {
		return wait
	}
	if wait = b.shared.take(ctx, from, of.shared); wait > 0 { // the call does not count
		b.mu.Lock()
		of.tokens++
		b.mu.Unlock()
	}
	return wait
}

// takeLocal is take for the calls of this process.
func (b *buckets) takeLocal(from caller) (of *bucket, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.limit.Now()
	of = b.callers[from]
	if of == nil {
		if len(b.callers) >= maxCallers {
			b.evict(now)
		}
		of = &bucket{tokens: float64(b.limit.Burst), at: now}
		if b.shared != nil {
			of.shared = &sharedBucket{}
		}
		b.callers[from] = of
	}
	b.refill(of, now)
	if of.tokens < 1 {
		return nil, time.Duration((1 - of.tokens) / b.limit.PerSecond * float64(time.Second))
	}
	of.tokens--
	return of, 0
}

// refill adds the tokens that have accrued since the last time.
func (b *buckets) refill(of *bucket, now time.Time) {
	passed := max(now.Sub(of.at), 0) // the clock may be set back
	of.tokens = min(of.tokens+passed.Seconds()*b.limit.PerSecond, float64(b.limit.Burst))
	of.at = now
}

// evict removes all callers whose bucket is full, which changes nothing for them, and then
// others until an eighth of the table is free. It is called with mu held.
func (b *buckets) evict(now time.Time) {
	for key, of := range b.callers {
		if b.refill(of, now); of.tokens >= float64(b.limit.Burst) {
			delete(b.callers, key)
		}
	}
	for key := range b.callers {
		if len(b.callers) <= maxCallers*7/8 {
			return
		}
		delete(b.callers, key)
	}
}
