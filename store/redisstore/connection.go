package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// connection is a connection for subscriptions. One goroutine sends on it and one receives.
//
// When a command fails, a [redis.PubSub] connects again by itself and subscribes to the same
// channels. Messages may be lost in between, and subscribers must learn of that, so nothing is
// received after a command has failed.
type connection struct {
	pubsub *redis.PubSub

	mu      sync.Mutex // held while a command is sent
	failure error      // error of the command that failed
}

// send sends a command. It must not be called after it has returned an error.
func (c *connection) send(command func(*redis.PubSub) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = command(c.pubsub)
	return c.failure
}

// receive returns the next message or answer that Redis sends. It waits for at most limit, and
// then for a command that is being sent: if that fails, what was received may come from the new
// connection.
func (c *connection) receive(ctx context.Context, limit time.Duration) (any, error) {
	received, err := c.pubsub.ReceiveTimeout(ctx, limit)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return nil, c.failure
	}
	return received, nil
}
