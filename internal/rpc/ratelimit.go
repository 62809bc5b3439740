package rpc

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// RateLimit is how many calls one caller may make.
type RateLimit struct {
	PerSecond float64 // on average; 0 or less: no limit
	Burst     int     // at once, after a pause; at least 1
	// Methods are those that are counted, all together. Nil: tools/call and
	// completion/complete (2026-07-28, server/tools, Security; server/utilities/completion).
	Methods []string
	Now     func() time.Time // nil: time.Now
}

// LimitRate is middleware that refuses calls of a caller who makes too many, with an
// error that says when to try again: as text, and in its data as retryAfterMs. A
// caller is a principal; those that nobody has authenticated are told apart by session
// or address, so that one of them does not use up what all have.
//
// It remembers 10,000 callers at a time, of whom the idle cost nothing when they are
// forgotten.
func LimitRate(limit RateLimit) Middleware {
	if limit.PerSecond <= 0 {
		return func(next Handler) Handler { return next }
	}
	limit.Burst = max(limit.Burst, 1)
	if limit.Methods == nil {
		limit.Methods = []string{mcp.MethodCallTool, mcp.MethodComplete}
	}
	if limit.Now == nil {
		limit.Now = time.Now
	}
	b := &buckets{limit: limit, callers: make(map[caller]*bucket)}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) Outcome {
			if slices.Contains(limit.Methods, c.Method) {
				if wait := b.take(callerOf(c)); wait > 0 {
					return Fail(tooMany(wait))
				}
			}
			return next(ctx, c)
		}
	}
}

// tooMany refuses a call. The protocol has no code for it, and none may be made up.
func tooMany(wait time.Duration) *jsonrpc.Error {
	wait = wait.Round(time.Millisecond) + time.Millisecond
	data, _ := json.Marshal(struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}{wait.Milliseconds()})
	e := jsonrpc.Errorf(jsonrpc.CodeInternalError, "too many calls: try again in %v", wait)
	e.Data = data
	return e
}

// caller is who makes calls.
type caller struct {
	who    principal.Principal
	source string // of those that nobody has authenticated
}

func callerOf(c *Call) caller {
	if c.Principal == principal.Anonymous {
		return caller{source: c.Source}
	}
	return caller{who: c.Principal}
}

// maxCallers bounds the callers that are remembered.
const maxCallers = 10_000

// buckets are the token buckets of all callers.
type buckets struct {
	limit RateLimit

	mu      sync.Mutex
	callers map[caller]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time // when there were so many
}

// take takes a token of a caller's, or returns how long it takes until there is one.
func (b *buckets) take(who caller) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.limit.Now()
	of := b.callers[who]
	if of == nil {
		if len(b.callers) >= maxCallers {
			b.forget(now)
		}
		of = &bucket{float64(b.limit.Burst), now}
		b.callers[who] = of
	}
	b.fill(of, now)
	if of.tokens < 1 {
		return time.Duration((1 - of.tokens) / b.limit.PerSecond * float64(time.Second))
	}
	of.tokens--
	return 0
}

// fill adds what has accrued since the last time.
func (b *buckets) fill(of *bucket, now time.Time) {
	passed := max(now.Sub(of.at), 0) // clocks may be set back
	of.tokens = min(of.tokens+passed.Seconds()*b.limit.PerSecond, float64(b.limit.Burst))
	of.at = now
}

// forget makes room: it forgets everybody whose bucket is full, which makes no
// difference to them, and if that is nobody, an eighth of all. It is called with mu held.
func (b *buckets) forget(now time.Time) {
	for who, of := range b.callers {
		if b.fill(of, now); of.tokens >= float64(b.limit.Burst) {
			delete(b.callers, who)
		}
	}
	for who := range b.callers {
		if len(b.callers) <= maxCallers*7/8 {
			return
		}
		delete(b.callers, who)
	}
}
