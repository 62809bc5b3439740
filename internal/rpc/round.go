package rpc

import (
	"crypto/rand"
	"fmt"
)

// A call of 2026-07-28 may take several rounds: the client repeats the request with the input
// that the server asked for, and the handler runs again.

// Key identifies the call in all its rounds. It has 128 random bits.
func (c *Call) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == "" {
		c.key = rand.Text()
	}
	return c.key
}

// RestoreKey sets the key that the call had in an earlier round.
func (c *Call) RestoreKey(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = key
}

// Suspend ends the handler's context because the call waits for its client's input. Nothing
// more can be sent in this round.
func (c *Call) Suspend() {
	c.mu.Lock()
	c.waiting = true
	c.mu.Unlock()
	c.Cancel(ErrInputRequired)
}

// Mute makes the methods that send notifications do nothing, because an earlier round has sent
// them.
func (c *Call) Mute(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted = on
}

// Claim reserves a key that may be used once in a run of the handler.
func (c *Call) Claim(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ended(); err != nil {
		return err
	}
	if c.claimed[key] {
		return fmt.Errorf("key %q must be used once in a call: choose another key", key)
	}
	if c.claimed == nil {
		c.claimed = make(map[string]bool)
	}
	c.claimed[key] = true
	return nil
}
