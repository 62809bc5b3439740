package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
)

// ErrSuperseded is the error of [Typeahead.Complete] when a later input for the same
// argument has taken the place of this one.
var ErrSuperseded = errors.New("superseded by a later input")

// Typeahead completes the arguments of one prompt, or the variables of one resource
// template, while somebody types: it is made to be called on each keystroke. Only an
// input that stays for a moment is asked about, what was asked about before is
// remembered, and a later input ends the wait of the one before. Make it with
// [Client.Typeahead]. It has no goroutine, needs no closing, and is safe for concurrent
// use; its fields are set before that.
type Typeahead struct {
	// Delay is how long an input has to stay before the server is asked; default 150 ms,
	// negative: not at all.
	Delay time.Duration
	// Keep is for how long an answer is remembered; default one minute, negative: not at
	// all. At most 256 answers are.
	Keep time.Duration

	client *Client
	ref    mcp.CompleteReference

	mu      sync.Mutex
	kept    map[completionKey]keptCompletion
	current map[string]*completing // the input that is being completed, by argument
}

// maxCompletions bounds the answers that a Typeahead remembers. Beyond it the oldest
// goes.
const maxCompletions = 256

// completionKey is an input: the argument, what was typed, and the other arguments.
type completionKey struct{ argument, value, others string }

type keptCompletion struct {
	completion mcp.Completion
	since      time.Time
}

// completing is one input that somebody asks about, and others may wait for who have the
// same.
type completing struct {
	key    completionKey
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it is over
	result *mcp.Completion
	err    error
}

// errLeft ends what others wait for when the one who asks gives up; one of them goes on.
var errLeft = errors.New("given up")

// Typeahead returns a Typeahead of a prompt's arguments, or a template's variables.
func (c *Client) Typeahead(ref mcp.CompleteReference) *Typeahead {
	return &Typeahead{client: c, ref: ref}
}

// Complete returns what an argument may be completed to, of which value was typed so
// far. Others are the other arguments that have a value; they are sent to servers that
// know them, since 2025-06-18.
//
// A call for the same argument with another input ends this one with [ErrSuperseded],
// which a caller may well ignore: the later call has the answer. Calls with the same
// input share one request. Other errors are those of [Client.Complete]; they are not
// remembered. The completion is the caller's own.
func (x *Typeahead) Complete(ctx context.Context, argument, value string, others map[string]string) (*mcp.Completion, error) {
	encoded, err := json.Marshal(others) // its keys are sorted
	if err != nil {
		return nil, fmt.Errorf("completion/complete: %w", err)
	}
	key := completionKey{argument, value, string(encoded)}
	for {
		p, result, asking := x.join(ctx, key)
		switch {
		case result != nil:
			return result, nil
		case asking != nil:
			x.finish(p, x.ask(asking, p.key, others))
			if p.err == errLeft {
				return nil, context.Cause(ctx)
			}
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case p.err == errLeft:
			continue
		case p.err != nil:
			return nil, p.err
		}
		return cloneCompletion(p.result), nil
	}
}

// join returns what is remembered of an input, or what is to be waited for; with a
// context in which to ask if nobody does so yet. Another input for the same argument has
// had its time.
func (x *Typeahead) join(ctx context.Context, key completionKey) (p *completing, kept *mcp.Completion, asking context.Context) {
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
	if k, ok := x.kept[key]; ok && time.Since(k.since) < orDefault(x.Keep, time.Minute) {
		return nil, cloneCompletion(&k.completion), nil
	}
	asking, cancel := context.WithCancelCause(ctx)
	p = &completing{key: key, cancel: cancel, done: make(chan struct{})}
	if x.current == nil {
		x.current = make(map[string]*completing)
	}
	x.current[key.argument] = p
	return p, nil, asking
}

// ask asks the server, when the input has stayed for a moment.
func (x *Typeahead) ask(ctx context.Context, key completionKey, others map[string]string) func(*completing) {
	result, err := x.request(ctx, key, others)
	return func(p *completing) {
		switch {
		case err == nil:
			p.result = result
		case errors.Is(context.Cause(ctx), ErrSuperseded):
			p.err = ErrSuperseded
		case ctx.Err() != nil:
			p.err = errLeft
		default:
			p.err = err
		}
	}
}

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

// finish notes what became of an input, and lets those go who wait for it.
func (x *Typeahead) finish(p *completing, settle func(*completing)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	settle(p)
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
	if x.kept == nil {
		x.kept = make(map[completionKey]keptCompletion)
	}
	x.kept[key] = keptCompletion{*cloneCompletion(result), time.Now()}
	for len(x.kept) > maxCompletions {
		var oldest completionKey
		var since time.Time
		for k, v := range x.kept {
			if since.IsZero() || v.since.Before(since) {
				oldest, since = k, v.since
			}
		}
		delete(x.kept, oldest)
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

// orDefault is d, or what it stands for: a zero one for def, a negative one for nothing.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		d = def
	}
	return max(d, 0)
}
