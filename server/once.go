package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/store"
)

const (
	onceLifetime  = 24 * time.Hour
	maxOnceResult = 16 << 10
	maxOnceKey    = 256
)

// ErrOnceUncertain is returned by Once when the function has been started, and
// nobody knows how it ended: the process that ran it is gone, or is running it now.
var ErrOnceUncertain = errors.New("it was started before and may have happened: find out by its idempotency key")

// onceEntry is what the store keeps of a function that is to run once.
type onceEntry struct {
	Result json.RawMessage `json:"result,omitempty"` // nil: started
}

// Once runs f once for the call that ctx belongs to, however often the handler runs
// for it, and returns what f returned then. Charge the card in it. Key tells it
// from the call's other functions; the same key twice in one run is an error.
//
// Idempotency key is unique to the call and key, and the same each time: hand it to
// whoever f asks to do something, so that a repetition can be recognised there.
// When a process ends in the middle of f, later runs get [ErrOnceUncertain], never
// a second f. An f that fails is not remembered, and runs again. Its result must
// have a JSON form of at most 16 KiB, and is kept for 24 hours.
//
// The results are stored in [Server.KV]. Replicas of a server must share it, and it
// must survive a restart if calls do.
func Once[T any](ctx context.Context, key string, f func(ctx context.Context, idempotencyKey string) (T, error)) (T, error) {
	var zero T
	c := rpc.From(ctx)
	if c == nil {
		return zero, rpc.ErrNoCall
	}
	if key == "" || len(key) > maxOnceKey {
		return zero, fmt.Errorf("once: a key has 1 to %d bytes", maxOnceKey)
	}
	if err := c.Claim(key); err != nil {
		return zero, err
	}
	idempotency := c.Key() + "/" + key
	raw, err := runOnce(ctx, c.Store, c.Principal.Key()+"once/"+idempotency, func(ctx context.Context) (json.RawMessage, error) {
		value, err := f(ctx, idempotency)
		if err != nil {
			return nil, err
		}
		return schema.Marshal(value)
	})
	if err != nil {
		return zero, err
	}
	var value T
	if err := schema.Decode(raw, &value); err != nil {
		return zero, fmt.Errorf("once: the result that was kept does not fit %T: %w", zero, err)
	}
	return value, nil
}

// runOnce is Once without types. The entry goes from absent to started to done,
// each by compare-and-swap.
func runOnce(ctx context.Context, kv store.KV, key string, f func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	started, _ := json.Marshal(onceEntry{})
	version, err := kv.Put(ctx, key, started, store.PutOptions{TTL: onceLifetime, IfAbsent: true})
	if errors.Is(err, store.ErrConflict) {
		item, err := kv.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("once: %w", err)
		}
		var entry onceEntry
		if err := json.Unmarshal(item.Value, &entry); err != nil {
			return nil, fmt.Errorf("once: %w", err)
		}
		if entry.Result == nil {
			return nil, ErrOnceUncertain
		}
		return entry.Result, nil
	}
	if err != nil {
		return nil, fmt.Errorf("once: nothing was done: %w", err)
	}
	result, err := f(ctx)
	// What follows must be kept even if the client has gone away meanwhile.
	keep := context.WithoutCancel(ctx)
	if err != nil {
		if forget := kv.Delete(keep, key); forget != nil {
			err = errors.Join(err, fmt.Errorf("once: that it failed could not be kept: %w", forget))
		}
		return nil, err
	}
	if len(result) > maxOnceResult {
		return nil, fmt.Errorf("once: %w: its result has %d bytes, and at most %d are kept", ErrOnceUncertain, len(result), maxOnceResult)
	}
	done, err := json.Marshal(onceEntry{Result: result})
	if err != nil {
		return nil, fmt.Errorf("once: %w: %w", ErrOnceUncertain, err)
	}
	if _, err := kv.Put(keep, key, done, store.PutOptions{TTL: onceLifetime, IfVersion: version}); err != nil {
		return nil, fmt.Errorf("once: %w: its result could not be kept: %w", ErrOnceUncertain, err)
	}
	return result, nil
}
