package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
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
		Code: jsonrpc.CodeInternalError, Message: storeUnavailable, Data: []byte(`{"limit":"store","retryAfterMs":2000}`),
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

// Retry calls operation until it returns an error that is not that of a failed store, or until ctx ends. It then
// returns the last error. Operation must be safe to repeat if an earlier attempt has succeeded without an answer.
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
