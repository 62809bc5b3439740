package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// ErrSuperseded is the error of [Typeahead.Complete] when a later call has replaced the
// input for the same argument.
var ErrSuperseded = errors.New("superseded by a later input")

// Typeahead completes the arguments of one prompt, or the variables of one resource
// template, while a user types. Call its method on each keystroke: it requests completions
// only when the input has not changed for a moment, caches them, and cancels the request for
// an earlier input. [Client.Typeahead] returns one.
//
// A Typeahead starts no goroutine and needs no Close. It is safe for concurrent use once its
// fields are set.
type Typeahead struct {
	// Delay is how long an input must be unchanged before it is sent to the server. Zero
	// means 150 ms, a negative value no delay.
	Delay time.Duration
	// Keep is how long a completion is cached. Zero means one minute, a negative value not at
	// all. At most 256 completions are cached.
	Keep time.Duration

	client *Client
	ref    mcp.CompleteReference

	mu      sync.Mutex
	cached  map[completionKey]cachedCompletion
	current map[string]*inputCompletion // by argument
}

// maxCompletions limits the completions that a Typeahead caches. Above it the oldest is
// evicted.
const maxCompletions = 256

// completionKey is an input: the argument, the text typed so far, and the other arguments.
type completionKey struct{ argument, value, others string }

type cachedCompletion struct {
	completion mcp.Completion
	since      time.Time
}

// inputCompletion is the completion of one input, in progress. Calls with the same input
// share it.
type inputCompletion struct {
	key    completionKey
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when result or err is set
	result *mcp.Completion
	err    error
}

// errAbandoned ends an inputCompletion when the call that runs it is cancelled. Another call
// with the same input then takes over.
var errAbandoned = errors.New("abandoned")

// Typeahead returns a [Typeahead] for a prompt or a resource template.
func (c *Client) Typeahead(ref mcp.CompleteReference) *Typeahead {
	return &Typeahead{client: c, ref: ref}
}

// Complete returns completions of value, the text typed so far for an argument. others has
// the values of other arguments; they are sent to servers since 2025-06-18. The caller owns
// the result.
//
// A call for the same argument with another input ends this one with [ErrSuperseded], which
// most callers ignore, because the later call returns the completions. Calls with the same
// input share one request. Other errors are those of [Client.Complete]; they are not cached.
func (x *Typeahead) Complete(ctx context.Context, argument, value string, others map[string]string) (*mcp.Completion, error) {
	encoded, err := schema.Marshal(others) // sorts the keys
	if err != nil {
		return nil, fmt.Errorf("completion/complete: %w", err)
	}
	key := completionKey{argument, value, string(encoded)}
	for {
		p, result, running := x.join(ctx, key)
		switch {
		case result != nil:
			return result, nil
		case running != nil:
			result, err := x.request(running, p.key, others)
			x.finish(running, p, result, err)
			if p.err == errAbandoned {
				return nil, context.Cause(ctx)
			}
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case p.err == errAbandoned:
			continue
		case p.err != nil:
			return nil, p.err
		}
		return cloneCompletion(p.result), nil
	}
}

// join returns the cached completion of an input, or the one in progress. If it begins a new
// one, it also returns the context in which the caller must run it. It cancels the
// completion of another input for the same argument.
func (x *Typeahead) join(ctx context.Context, key completionKey) (p *inputCompletion, cached *mcp.Completion, running context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p = x.current[key.argument]
	if p != nil && p.key == key {
		return p, nil, nil
	}
	if p != nil {
		p.cancel(ErrSuperseded)
		delete(x.current, key.argument)
	}
	if k, ok := x.cached[key]; ok && time.Since(k.since) < orDefault(x.Keep, time.Minute) {
		return nil, cloneCompletion(&k.completion), nil
	}
	running, cancel := context.WithCancelCause(ctx)
	p = &inputCompletion{key: key, cancel: cancel, done: make(chan struct{})}
	if x.current == nil {
		x.current = make(map[string]*inputCompletion)
	}
	x.current[key.argument] = p
	return p, nil, running
}

// request sends the input to the server after the delay.
func (x *Typeahead) request(ctx context.Context, key completionKey, others map[string]string) (*mcp.Completion, error) {
	timer := time.NewTimer(orDefault(x.Delay, 150*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	params := mcp.CompleteParams{Ref: x.ref, Argument: mcp.CompleteArgument{Name: key.argument, Value: key.value}}
	if len(others) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: others}
	}
	return x.client.Complete(ctx, params)
}

// finish records the outcome of p, which ran in ctx, and wakes the calls that share it.
func (x *Typeahead) finish(ctx context.Context, p *inputCompletion, result *mcp.Completion, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		p.result = result
	case errors.Is(context.Cause(ctx), ErrSuperseded):
		p.err = ErrSuperseded
	case ctx.Err() != nil:
		p.err = errAbandoned
	default:
		p.err = err
	}
	p.cancel(nil)
	if x.current[p.key.argument] == p {
		delete(x.current, p.key.argument)
	}
	if p.err == nil && x.Keep >= 0 {
		x.keep(p.key, p.result)
	}
	close(p.done)
}

func (x *Typeahead) keep(key completionKey, result *mcp.Completion) {
	if x.cached == nil {
		x.cached = make(map[completionKey]cachedCompletion)
	}
	x.cached[key] = cachedCompletion{*cloneCompletion(result), time.Now()}
	for len(x.cached) > maxCompletions {
		var oldest completionKey
		var since time.Time
		for k, v := range x.cached {
			if since.IsZero() || v.since.Before(since) {
				oldest, since = k, v.since
			}
		}
		delete(x.cached, oldest)
	}
}

func cloneCompletion(c *mcp.Completion) *mcp.Completion {
	out := *c
	out.Values = slices.Clone(c.Values)
	if c.Total != nil {
		total := *c.Total
		out.Total = &total
	}
	return &out
}

// orDefault returns def if d is zero, and zero if d is negative.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		d = def
	}
	return max(d, 0)
}
