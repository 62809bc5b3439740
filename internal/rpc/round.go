package rpc

import (
	"context"
	"crypto/rand"
	"fmt"
)

// A call of 2026-07-28 may take several rounds: the client repeats the request with the input
// that the server asked for, and the handler runs again.

// rounds is the state of a call that takes several rounds. Few calls do, so it is not a part of Call.
type rounds struct {
	key      string          // see Key
	number   int             // see SetRound
	answered map[string]bool // see SetRound
	claimed  map[string]bool // see Claim
	muted    int             // see Mute
	asking   int             // see IsAbandoned
	asTask   AsTask
}

// several returns the state for several rounds. The caller holds mu.
func (c *Call) several() *rounds {
	if c.rounds == nil {
		c.rounds = new(rounds)
	}
	return c.rounds
}

// AsTask is what a call needs that runs as a task or can become one. All fields may be zero.
type AsTask struct {
	// Progress receives the progress of the handler instead of the peer.
	Progress func(ctx context.Context, done, total float64, text string) error
	// Detach makes the call a task, unless it runs as one already.
	Detach func(ctx context.Context) error
	// Caller is the caller of the request that has created the task.
	Caller Caller
}

// SetAsTask prepares the call. It must be called before the handler runs.
func (c *Call) SetAsTask(a AsTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.several().asTask = a
}

// AsTask returns what SetAsTask has set.
func (c *Call) AsTask() AsTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asTask()
}

// asTask is AsTask for callers that hold mu.
func (c *Call) asTask() AsTask {
	if c.rounds == nil {
		return AsTask{}
	}
	return c.rounds.asTask
}

// Key identifies the call in all its rounds. It has 128 random bits.
func (c *Call) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.several()
	if r.key == "" {
		r.key = rand.Text()
	}
	return r.key
}

// SetRound prepares a call that repeats a request. Number is the number of earlier rounds, and answered are the keys of
// the input requests to which this round has the answers.
func (c *Call) SetRound(number int, answered map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.several()
	r.number, r.answered = number, answered
}

// Repeats returns the number of earlier rounds if the client has answered the input request with this key in one of
// them, so that the handler had the answer then. It returns 0 otherwise, and for calls with one round.
func (c *Call) Repeats(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rounds == nil || c.rounds.answered[key] {
		return 0
	}
	return c.rounds.number
}

// RestoreKey sets the key that the call had in an earlier round.
func (c *Call) RestoreKey(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.several().key = key
}

// Suspend ends the handler's context because the call waits for its client's input. Nothing
// more can be sent in this round.
func (c *Call) Suspend() {
	c.mu.Lock()
	c.waiting = true
	c.mu.Unlock()
	c.Cancel(ErrInputRequired)
}

// Mute makes the next n notifications have no effect, because an earlier round has sent them. 0 ends that.
func (c *Call) Mute(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.several().muted = n
}

// Notified returns the number of notifications in this round, with those that had no effect because of Mute.
func (c *Call) Notified() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.made)
}

// Claim reserves a key that may be used once in a run of the handler.
func (c *Call) Claim(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ended(); err != nil {
		return err
	}
	r := c.several()
	if r.claimed[key] {
		return fmt.Errorf("key %q must be used once in a call: choose another key", key)
	}
	if r.claimed == nil {
		r.claimed = make(map[string]bool)
	}
	r.claimed[key] = true
	return nil
}

// IsAbandoned reports whether the handler of the call waits for an answer of its client and no request of the client
// waits for the handler.
func (c *Call) IsAbandoned() bool {
	c.mu.Lock()
	asks := c.rounds != nil && c.rounds.asking > 0
	c.mu.Unlock()
	return asks && !c.Connected()
}

// beginAsking records that the handler waits for an answer until the returned function is called.
func (c *Call) beginAsking() (end func()) {
	add := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.several().asking += n
	}
	add(1)
	return func() { add(-1) }
}
