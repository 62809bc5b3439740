package tasks

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Whoever changes the record of a task announces it on the Bus, and whoever waits for a change reads the record after
// each announcement. An announcement can be lost, because a Bus stores nothing and can fail, so a waiter also reads the
// record at intervals. This file has both sides; nothing else uses the Bus for tasks.

const (
	// rereadInterval is the longest time between two readings of a task that someone waits for.
	rereadInterval = 5 * time.Second
	// busRetry is the time between two attempts to subscribe again when the Bus has ended.
	busRetry = 2 * time.Second
)

// Changes waits for changes of a task. One goroutine uses it, except for Wake, which is safe for concurrent use.
type Changes struct {
	store *Store
	owner principal.Principal
	id    string
	woken chan struct{} // capacity 1

	messages  *store.Subscription // nil after the Bus has ended it
	subscribe time.Time           // when to subscribe again then
	reread    time.Time           // when the task must be read again without an announcement
}

// Watch returns the changes of a task from now on. The caller must close them, and reads the task before the first
// Wait. The error is ErrNotFound if there are no tasks with such an id.
func (s *Store) Watch(ctx context.Context, owner principal.Principal, id string) (*Changes, error) {
	if !mayBeID(id) {
		return nil, ErrNotFound
	}
	messages, err := s.Bus.Subscribe(ctx, key(owner, id), 1)
	if err != nil {
		return nil, err
	}
	return &Changes{store: s, owner: owner, id: id, woken: make(chan struct{}, 1), messages: messages,
		reread: time.Now().Add(rereadInterval)}, nil
}

// ID returns the id of the task.
func (c *Changes) ID() string { return c.id }

// Wait waits for at most the given time, and reports whether the task must be read, because it may have changed. The
// error is the cause of the end of ctx.
func (c *Changes) Wait(ctx context.Context, limit time.Duration) (changed bool, err error) {
	for until := time.Now().Add(limit); ; {
		if c.resubscribe(ctx) || !time.Now().Before(c.reread) {
			c.reread = time.Now().Add(rereadInterval)
			return true, nil
		}
		next := c.reread
		if until.Before(next) {
			next = until
		}
		var messages <-chan store.Message
		if c.messages != nil {
			messages = c.messages.C
		} else if c.subscribe.Before(next) {
			next = c.subscribe
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case _, open := <-messages:
			timer.Stop()
			if open { // also the report of a loss
				c.reread = time.Now().Add(rereadInterval)
				return true, nil
			}
			c.Close()
			c.messages, c.subscribe = nil, time.Now().Add(busRetry)
		case <-timer.C:
			if !time.Now().Before(until) {
				return false, nil
			}
		case <-c.woken:
			timer.Stop()
			return false, nil
		case <-ctx.Done():
			timer.Stop()
			return false, context.Cause(ctx)
		}
	}
}

// resubscribe subscribes again, some time after the Bus has ended the subscription. It reports whether it has, so that
// changes may have been missed.
func (c *Changes) resubscribe(ctx context.Context) bool {
	if c.messages != nil || time.Now().Before(c.subscribe) {
		return false
	}
	messages, err := c.store.Bus.Subscribe(ctx, key(c.owner, c.id), 1)
	if err != nil {
		c.subscribe = time.Now().Add(busRetry)
		return false
	}
	c.messages = messages
	return true
}

// Wake makes Wait return at once.
func (c *Changes) Wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// Close ends the subscription.
func (c *Changes) Close() {
	if c.messages != nil {
		c.messages.Close()
	}
}

// Announce wakes those who wait for a change of a task. It does not depend on the end of ctx: the change is stored, and
// the client may have been told so. If it fails, they read the task within rereadInterval.
func (s *Store) Announce(ctx context.Context, owner principal.Principal, id string) {
	_ = s.Bus.Publish(context.WithoutCancel(ctx), key(owner, id), nil) // the Bus logs the error
}
