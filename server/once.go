package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/store"
)

const (
	onceLifetime  = 24 * time.Hour
	maxOnceResult = 16 << 10
	maxOnceKey    = 256
)

// ErrOnceUncertain is returned by [Once] if the function was started before and its result is unknown, because the
// process ended, the result could not be stored, or the function is still running. Once does not call the function
// again. Look up the outcome in the service that the function calls, by the idempotency key.
var ErrOnceUncertain = errors.New("the operation was started before and its result is unknown: " +
	"look it up by its idempotency key")

// onceEntry is the entry of one function in the store.
type onceEntry struct {
	Result json.RawMessage `json:"result,omitempty"` // nil: started, but not finished
	Run    string          `json:"run,omitempty"`    // the run of the handler that has started it
}

// Once calls f once for the call of ctx, even if the handler runs several times for the call
// (see [Ask]), and returns the result of f each time. Use it for effects such as a payment. The
// key identifies f within the call and must have 1 to 256 bytes. Using a key twice in one run of
// the handler is an error.
//
//	receipt, err := server.Once(ctx, "pay", func(ctx context.Context, idempotencyKey string) (Receipt, error) {
//		return bank.Pay(ctx, in, idempotencyKey)
//	})
//
// The idempotencyKey is the same in every run, and no other call or key shares it. Pass it to the services that f
// calls, so that they recognize a repeated request. If f returns an error, Once returns it, and the next run calls f
// again, so f may ask the user. If the result of f is lost or has no JSON encoding, Once returns [ErrOnceUncertain] and
// does not call f again. While the store is not available, Once waits for it: until the context of a task ends, and
// otherwise for a minute.
//
// The result is stored as JSON in [Server.Store] for 24 hours. Its encoding must not exceed 16 KiB;
// for a larger result Once returns an error that wraps ErrOnceUncertain. Without a Store, results are
// lost when the process ends. Outside of a handler, Once returns call.ErrNoCall.
func Once[T any](
	ctx context.Context, key string, f func(ctx context.Context, idempotencyKey string) (T, error),
) (T, error) {
	var zero T
	c := rpc.From(ctx)
	if c == nil {
		return zero, call.ErrNoCall
	}
	if key == "" || len(key) > maxOnceKey {
		return zero, fmt.Errorf("once: key must have 1 to %d bytes", maxOnceKey)
	}
	if err := c.Claim(key); err != nil {
		return zero, err
	}
	if err := schema.CheckType(reflect.TypeFor[T]()); err != nil { // while nothing has happened yet
		return zero, fmt.Errorf("once: a result of type %T cannot be stored: %w", zero, err)
	}
	idempotency := c.Key() + "/" + key
	raw, err := runOnce(ctx, c, c.Principal().Key()+"once/"+idempotency,
		func(ctx context.Context) (func() (json.RawMessage, error), error) {
			value, err := f(ctx, idempotency)
			return func() (json.RawMessage, error) { return schema.Marshal(value) }, err
		})
	if err != nil {
		return zero, err
	}
	var value T
	if err := schema.Decode(raw, &value); err != nil {
		return zero, uncertain("cannot decode the stored result into %T: %w", zero, err)
	}
	return value, nil
}

// uncertain returns an error about what happened after the function was started: whatever fails then, the function
// must not be called again.
func uncertain(format string, args ...any) error {
	return fmt.Errorf("once: %w: "+format, append([]any{ErrOnceUncertain}, args...)...)
}

// runOnce is Once without types. F returns a function that encodes its result. The entry changes from absent to
// started to finished, each by compare-and-swap. While the store has failed, runOnce tries again.
func runOnce(
	ctx context.Context, c *rpc.Call, key string,
	f func(context.Context) (encode func() (json.RawMessage, error), err error),
) (json.RawMessage, error) {
	kv, run := c.Store, rand.Text()
	started, _ := json.Marshal(onceEntry{Run: run})
	var entry onceEntry
	var version uint64
	found := false // an entry: the function may have been started
	err := c.Retry(ctx, func() (err error) {
		if version, err = kv.Put(ctx, key, started, store.PutOptions{TTL: onceLifetime, IfAbsent: true}); err == nil {
			entry.Run = run
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		item, err := kv.Get(ctx, key)
		found = !errors.Is(err, store.ErrNotFound)
		if err != nil {
			return err
		}
		version = item.Version
		return jsonv2.Unmarshal(item.Value, &entry)
	})
	switch {
	case err != nil && found:
		return nil, uncertain("cannot read the stored result: %w", err)
	case err != nil:
		return nil, fmt.Errorf("once: the operation was not started: %w", err)
	case entry.Result != nil:
		return entry.Result, nil
	case entry.Run != run: // otherwise an earlier attempt has written it
		return nil, ErrOnceUncertain
	}
	encode, err := f(ctx)
	// The outcome must be stored even if the client has disconnected meanwhile.
	keep := context.WithoutCancel(ctx)
	if err != nil {
		if forget := c.Retry(ctx, func() error { return kv.Delete(keep, key) }); forget != nil {
			err = errors.Join(err, fmt.Errorf("once: cannot store that the operation failed: %w", forget))
		}
		return nil, err
	}
	// From here on every error is ErrOnceUncertain, and the entry stays.
	result, err := encode()
	if err != nil {
		return nil, uncertain("cannot encode the result: %w", err)
	}
	if len(result) > maxOnceResult {
		return nil, uncertain("the result has %d bytes, the limit is %d", len(result), maxOnceResult)
	}
	done, err := json.Marshal(onceEntry{Result: result})
	if err != nil {
		return nil, uncertain("cannot encode the result: %w", err)
	}
	err = c.Retry(ctx, func() error {
		_, err := kv.Put(keep, key, done, store.PutOptions{TTL: onceLifetime, IfVersion: version})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		item, failed := kv.Get(keep, key)
		if failed != nil || bytes.Equal(item.Value, done) { // an earlier attempt has written it
			return failed
		}
		return err
	})
	if err != nil {
		return nil, uncertain("cannot store the result: %w", err)
	}
	return result, nil
}
