package rpc

import (
	"context"
	"errors"
	"time"
)

// How often done is called by Poll: in intervals that double.
const (
	MinPollInterval = 250 * time.Millisecond
	lastPoll        = 5 * time.Second
)

// Poll calls done until it says yes, for so long. It may wait, for as long as its context
// lasts. The error is done's, or the cause with which ctx ended.
func Poll(ctx context.Context, patience time.Duration, done func(ctx context.Context) (bool, error)) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := MinPollInterval; ; pause = min(2*pause, lastPoll) {
		finished, err := done(waiting)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err == nil && finished:
			return true, nil
		case errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil: // it has waited
			return false, nil
		case err != nil:
			return false, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, nil
		}
	}
}

// SessionNotifier says what belongs to no call, on the stream that is the session's own.
type SessionNotifier interface {
	// NotifyWhenDone sends a notification, once a is done: after the call, which need not wait
	// for that. It reports false if nothing will come of it, because the session has
	// ended, or too many announcements are awaited. Ctx is for its values.
	NotifyWhenDone(ctx context.Context, a DeferredNotification) bool
}

// DeferredNotification is a notification that is sent when something is done.
type DeferredNotification struct {
	Method string
	Params []byte // a JSON object
	// Done is called every so often until it says yes, or returns an error.
	Done    func(ctx context.Context) (bool, error)
	Timeout time.Duration // how long Done is called
}
