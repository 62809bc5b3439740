package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// SessionNotifier sends messages that belong to no call, on the stream of the session.
type SessionNotifier interface {
	// Notify sends an encoded notification. Without a stream it waits for the next one. The oldest
	// are dropped if too many wait.
	Notify(notification []byte)
	// NotifyWhenDone sends n after n.Done has returned true, which may be after the call has
	// ended. It reports false if it will not, because the session has ended or too many
	// notifications are waiting. The context provides values only.
	NotifyWhenDone(ctx context.Context, n DeferredNotification) bool
	// Listens reports whether the client may receive messages now: its stream is open, or another replica may have the
	// stream.
	Listens() bool
	// RequestInput sends an input request and returns the client's response.
	RequestInput(ctx context.Context, r InputRequest) (json.RawMessage, error)
}

// DeferredNotification is a notification that is sent when an activity has ended.
type DeferredNotification struct {
	Method string
	Params []byte // a JSON object
	// Done is called repeatedly until it returns true or an error.
	Done    func(ctx context.Context) (bool, error)
	Timeout time.Duration // how long Done is called
}

// Intervals between the calls of Poll. They double from the first to the second.
const (
	MinPollInterval = 250 * time.Millisecond
	maxPollInterval = 5 * time.Second
)

// Poll calls done until it returns true or an error, or the time-out is over. Done may block
// until its context ends. The error is that of done, or the cause of the end of ctx.
func Poll(ctx context.Context, timeout time.Duration, done func(ctx context.Context) (bool, error)) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for interval := MinPollInterval; ; interval = min(2*interval, maxPollInterval) {
		finished, err := done(limited)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err == nil && finished:
			return true, nil
		case errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil: // it blocked until the time-out
			return false, nil
		case err != nil:
			return false, err
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, nil
		}
	}
}

// RecoverPanics returns done with panics converted to errors, for a goroutine of the server.
func RecoverPanics(done func(context.Context) (bool, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (finished bool, err error) {
		defer func() {
			if v := recover(); v != nil {
				finished, err = false, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		return done(ctx)
	}
}
