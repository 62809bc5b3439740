package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// StoreError is the error of a store that cannot be reached, does not answer in time, or is full. The same operation
// may succeed later. Its text has no details, so that clients may see it: that of Err may have addresses, and belongs
// in the log only.
type StoreError struct{ Err error }

const storeUnavailable = "the store of the server is not available: try again later"

// Error implements the error interface.
func (e *StoreError) Error() string {
	if errors.Is(e.Err, store.ErrFull) {
		return "the store of the server is full: try again later"
	}
	return storeUnavailable
}

// Unwrap returns e.Err.
func (e *StoreError) Unwrap() error { return e.Err }

// IsStoreFailure reports whether err means that the store has failed or is full, and not that a condition of the
// operation does not hold.
func IsStoreFailure(err error) bool {
	if _, ok := errors.AsType[*StoreError](err); ok {
		return true
	}
	return errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrConflict)
}

// ErrStoreUnavailable is the response to a request that the server cannot serve because its store has failed. Over HTTP
// its status is 503. StoreFailure is the response on the wire.
var (
	ErrStoreUnavailable = &call.OverloadError{Limit: "store", RetryAfter: 2 * time.Second, Err: StoreFailure}
	StoreFailure        = &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: storeUnavailable,
		Data: []byte(`{"limit":"store","retryAfterMs":2000}`),
	}
)

// Pauses between the attempts of Retry.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 2 * time.Second
)

// maxStall is how long a call waits for the store, if its client waits for the call.
const maxStall = time.Minute

// Retry calls operation as the function Retry does, but not for longer than maxStall unless the call is a task.
func (c *Call) Retry(ctx context.Context, operation func() error) error {
	if c.AsTask().Detach == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxStall)
		defer cancel()
	}
	return Retry(ctx, operation)
}

// Retry calls operation until it succeeds, fails for another reason than a failed store, or ctx ends. It then returns
// the last error. Operation must be safe to repeat if an earlier attempt has succeeded without an answer.
func Retry(ctx context.Context, operation func() error) error {
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		err := operation()
		if !IsStoreFailure(err) || errors.Is(err, store.ErrFull) { // a full store stays full for long
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// StoreTimeout is the time-out of each operation of a guarded store, so that a store that does not answer cannot block
// requests.
const StoreTimeout = 5 * time.Second

// StoreGuard bounds the time of the operations of a store, and logs its failures. Their errors are *StoreError, whose
// text has no addresses. Set Logger before the first operation. A StoreGuard is safe for concurrent use.
type StoreGuard struct {
	Logger *slog.Logger
	failed loglimit.Limiter
}

// Store returns s with the guard.
func (g *StoreGuard) Store(s store.Store) store.Store {
	return store.Join(guardedKV{s, g}, guardedSet{s, g}, guardedLog{s, g}, guardedBus{s, g})
}

// guarded runs one operation.
func guarded[T any](ctx context.Context, g *StoreGuard, name string, operation func(context.Context) (T, error)) (T,
	error) {
	limited, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	value, err := operation(limited)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict),
		errors.Is(err, store.ErrPurged), errors.Is(err, store.ErrInvalidArgument):
		return value, err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // of the caller
		return value, ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("no answer within %v: %w", StoreTimeout, err)
	}
	g.failed.Log(ctx, g.Logger, slog.LevelError, "operation of the store failed", slog.String("operation", name),
		slog.Any("error", err))
	return value, &StoreError{Err: err}
}

// guardedDo is guarded for operations without a result.
func guardedDo(ctx context.Context, g *StoreGuard, name string, operation func(context.Context) error) error {
	_, err := guarded(ctx, g, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, operation(ctx) })
	return err
}

type guardedKV struct {
	kv    store.KV
	guard *StoreGuard
}

func (b guardedKV) Get(ctx context.Context, key string) (store.Item, error) {
	return guarded(ctx, b.guard, "Get", func(ctx context.Context) (store.Item, error) { return b.kv.Get(ctx, key) })
}

func (b guardedKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	return guarded(ctx, b.guard, "Put",
		func(ctx context.Context) (uint64, error) { return b.kv.Put(ctx, key, value, opt) })
}

func (b guardedKV) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	return guarded(ctx, b.guard, "Touch",
		func(ctx context.Context) (store.Item, error) { return b.kv.Touch(ctx, key, ttl) })
}

func (b guardedKV) Delete(ctx context.Context, key string) error {
	return guardedDo(ctx, b.guard, "Delete", func(ctx context.Context) error { return b.kv.Delete(ctx, key) })
}

type guardedSet struct {
	set   store.Set
	guard *StoreGuard
}

func (b guardedSet) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	return guardedDo(ctx, b.guard, "Add", func(ctx context.Context) error {
		return b.set.Add(ctx, set, member, ttl, limit)
	})
}

func (b guardedSet) Remove(ctx context.Context, set, member string) error {
	return guardedDo(ctx, b.guard, "Remove", func(ctx context.Context) error { return b.set.Remove(ctx, set, member) })
}

func (b guardedSet) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	return guarded(ctx, b.guard, "List",
		func(ctx context.Context) ([]string, error) { return b.set.List(ctx, set, after, limit) })
}

type guardedLog struct {
	log   store.Log
	guard *StoreGuard
}

func (b guardedLog) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	return guardedDo(ctx, b.guard, "Append",
		func(ctx context.Context) error { return b.log.Append(ctx, key, seq, entry, opt) })
}

func (b guardedLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	return guarded(ctx, b.guard, "ReadAfter",
		func(ctx context.Context) ([][]byte, error) { return b.log.ReadAfter(ctx, key, seq) })
}

func (b guardedLog) Drop(ctx context.Context, group string) error {
	return guardedDo(ctx, b.guard, "Drop", func(ctx context.Context) error { return b.log.Drop(ctx, group) })
}

type guardedBus struct {
	bus   store.Bus
	guard *StoreGuard
}

func (b guardedBus) Publish(ctx context.Context, topic string, message []byte) error {
	return guardedDo(ctx, b.guard, "Publish",
		func(ctx context.Context) error { return b.bus.Publish(ctx, topic, message) })
}

func (b guardedBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	return guarded(ctx, b.guard, "Subscribe",
		func(ctx context.Context) (*store.Subscription, error) { return b.bus.Subscribe(ctx, topic, queue) })
}
