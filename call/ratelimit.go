package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// RateLimit configures [LimitRate].
type RateLimit struct {
	PerSecond float64 // average calls per second; 0 or less means no limit
	Burst     int     // calls at once after a pause; less than 1 means 1
	// Name names what is counted in the errors, as in "too many calls". Empty means calls.
	Name string
	// Methods are the methods that are counted, all together. Nil means tools/call,
	// completion/complete, resources/read and the requests about tasks (2026-07-28, server/tools,
	// Security; server/utilities/completion; 2025-11-25, basic/utilities/tasks, Security
	// Considerations).
	Methods []string

	// KV, if set, makes replicas with the same limit and the same KV count the calls of a caller
	// together. A replica writes to the KV once for Burst/32 calls of a caller, or for each call if
	// Burst is less than 64. It may let Burst/16 calls more through than the limit allows, or two if
	// Burst is less than 32. If the KV fails, each replica uses the limit alone for 5 seconds. The
	// clocks of the replicas must not differ by more than a second.
	KV store.KV
	// Logger receives the errors of KV. Nil means slog.Default().
	Logger *slog.Logger

	now func() time.Time // replaced by tests
}

// LimitRate returns middleware that limits the rate of calls of each caller. It rejects a call
// beyond the limit with an *[OverloadError].
//
// A caller is a principal. Unauthenticated callers are told apart by [Call.Source], so that none of them can use up the
// limit of the others.
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
	if limit.now == nil {
		limit.now = time.Now
	}
	b := &buckets{limit: limit, callers: make(map[caller]*bucket)}
	if limit.KV != nil {
		b.shared = newSharedRate(limit)
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (any, error) {
			if slices.Contains(limit.Methods, c.Method()) {
				from := caller{who: c.principal}
				if from.who == principal.Anonymous {
					from.source = c.source
				}
				if wait := b.take(ctx, from); wait > 0 {
					return nil, &OverloadError{Limit: cmp.Or(limit.Name, "calls"),
						RetryAfter: wait.Round(time.Millisecond) + time.Millisecond}
				}
			}
			return next(ctx, c)
		}
	}
}

// caller identifies a caller.
type caller struct {
	who    principal.Principal
	source string // set only for callers that are not authenticated
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
	b.mu.Lock()
	now := b.limit.now()
	of := b.callers[from]
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
		wait = time.Duration((1 - of.tokens) / b.limit.PerSecond * float64(time.Second))
	} else {
		of.tokens--
	}
	b.mu.Unlock()
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

// refill adds the tokens that have accrued since the last time.
func (b *buckets) refill(of *bucket, now time.Time) {
	passed := max(now.Sub(of.at), 0) // the clock may be set back
	of.tokens = min(of.tokens+passed.Seconds()*b.limit.PerSecond, float64(b.limit.Burst))
	of.at = now
}

// evict removes all callers whose bucket is full, which changes nothing for them, and then
// others until an eighth of the table is free. mu must be held.
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

// Replicas share one token bucket per caller in the store. A replica takes the tokens after the
// calls, for many calls at a time, so that few calls need the store.

const (
	// unreportedShare is the share of a burst, 1/32, that a replica may let through before
	// it takes the tokens from the store. While it takes them, it may let the same number
	// through again.
	unreportedShare = 32
	// sharedTimeout bounds the operations of one call, and sharedPause is how long it does
	// without the store after a failure.
	sharedTimeout = time.Second
	sharedPause   = 5 * time.Second
	// maxSharedAttempts bounds the attempts to write a bucket that other replicas write.
	maxSharedAttempts = 4
	// maxClockSkew is the largest clock difference between replicas that makes no difference.
	maxClockSkew = time.Second
)

// sharedRate takes the tokens of all callers from a store.
type sharedRate struct {
	kv     store.KV
	limit  RateLimit
	name   string // identifies the limit in keys
	most   int    // maximum number of unreported calls of a caller
	logger *slog.Logger
	failed loglimit.Limiter

	pausedUntil atomic.Int64 // nanoseconds of Unix time
}

func newSharedRate(limit RateLimit) *sharedRate {
	s := &sharedRate{kv: limit.KV, limit: limit, most: max(limit.Burst/unreportedShare, 1), logger: limit.Logger}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.name = "rate/" + digest.Of(fmt.Sprint(limit.PerSecond, limit.Burst, limit.Methods))
	return s
}

func (s *sharedRate) key(from caller) string {
	if from.who == principal.Anonymous {
		return from.who.Key() + s.name + "/" + digest.Of(from.source) // a source may be the ID of a session
	}
	return from.who.Key() + s.name
}

// sharedBucket keeps what a replica knows about the bucket of a caller in the store.
type sharedBucket struct {
	mu         sync.Mutex
	unreported int           // calls that were let through but whose tokens have not been taken
	reporting  chan struct{} // closed when the current report ends; nil if there is none
	emptyUntil time.Time     // the bucket has no token before this time

	// Used only by the reporting call.
	tokens  bucketTokens
	version uint64 // version of tokens in the store; 0 if unknown
}

// bucketTokens is the value of a bucket in the store. Without a value, the bucket is full.
type bucketTokens struct {
	Tokens float64 `json:"tokens"`
	At     int64   `json:"at"` // nanoseconds of Unix time when Tokens was computed
}

// take lets a call through, or returns the time until the caller has a token. It lets all calls
// through if the store fails.
func (s *sharedRate) take(ctx context.Context, from caller, b *sharedBucket) (wait time.Duration) {
	for {
		now := s.limit.now()
		if now.UnixNano() < s.pausedUntil.Load() {
			return 0
		}
		b.mu.Lock()
		switch {
		case now.Before(b.emptyUntil):
			defer b.mu.Unlock()
			return b.emptyUntil.Sub(now)
		case b.reporting == nil && b.unreported+1 >= s.most:
			b.unreported++
			n := b.unreported
			b.reporting = make(chan struct{})
			b.mu.Unlock()
			return s.report(ctx, from, b, n)
		case b.reporting == nil || b.unreported < 2*s.most:
			b.unreported++
			b.mu.Unlock()
			return 0
		}
		reporting := b.reporting
		b.mu.Unlock()
		select {
		case <-reporting:
		case <-ctx.Done(): // the handler will end for the same reason
			return 0
		}
	}
}

// report takes the tokens of n calls from the store. All but the last have been let through. It
// lets the last one through, too, or returns the time until there is a token for it.
func (s *sharedRate) report(ctx context.Context, from caller, b *sharedBucket, n int) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedTimeout)
	defer cancel()
	left, enough, err := s.remove(ctx, s.key(from), b, n)
	now := s.limit.now()
	if err != nil && !errors.Is(err, store.ErrConflict) {
		s.pausedUntil.Store(now.Add(sharedPause).UnixNano())
		s.failed.Log(ctx, s.logger, slog.LevelError,
			"cannot share the rate limit with the other replicas: this replica counts alone for now",
			slog.Any("error", err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.reporting)
	b.reporting = nil
	if err != nil {
		return 0 // the next call will report them
	}
	b.unreported -= n
	if left < 1 {
		wait = time.Duration((1 - left) / s.limit.PerSecond * float64(time.Second))
		b.emptyUntil = now.Add(wait)
	}
	if enough {
		return 0
	}
	return wait
}

// remove removes n tokens from a bucket in the store, or n-1 if it has fewer than n. It returns how
// many are left, which may be negative.
func (s *sharedRate) remove(ctx context.Context, key string, b *sharedBucket,
	n int) (left float64, enough bool, err error) {
	full := float64(s.limit.Burst)
	life := time.Duration(2*full/s.limit.PerSecond*float64(time.Second)) + time.Minute
	for range maxSharedAttempts {
		if b.version == 0 {
			if err := s.read(ctx, key, b); err != nil {
				return 0, false, err
			}
		}
		now := s.limit.now()
		at := time.Unix(0, b.tokens.At)
		if at.After(now.Add(maxClockSkew)) {
			at = now
		}
		passed := max(now.Sub(at), 0) // another replica's clock may be ahead
		has := min(b.tokens.Tokens+passed.Seconds()*s.limit.PerSecond, full)
		enough, taken := has >= float64(n), n
		if !enough {
			if taken--; taken == 0 { // if other replicas have taken more, the bucket has even fewer
				b.tokens = bucketTokens{has, at.Add(passed).UnixNano()}
				return has, false, nil
			}
		}
		next := bucketTokens{has - float64(taken), at.Add(passed).UnixNano()}
		raw, err := jsonv2.Marshal(next)
		if err != nil {
			return 0, false, err
		}
		version, err := s.kv.Put(ctx, key, raw, store.PutOptions{TTL: life, IfVersion: b.version,
			IfAbsent: b.version == 0})
		if err == nil {
			b.tokens, b.version = next, version
			return next.Tokens, enough, nil
		}
		b.version = 0
		if !errors.Is(err, store.ErrConflict) {
			return 0, false, err
		}
	}
	return 0, false, store.ErrConflict
}

// read reads a bucket. If the store has none, the bucket is full.
func (s *sharedRate) read(ctx context.Context, key string, b *sharedBucket) error {
	b.tokens = bucketTokens{float64(s.limit.Burst), s.limit.now().UnixNano()}
	item, err := s.kv.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	b.version = item.Version
	if jsonv2.Unmarshal(item.Value, &b.tokens) != nil {
		b.tokens = bucketTokens{float64(s.limit.Burst), s.limit.now().UnixNano()}
	}
	return nil
}
