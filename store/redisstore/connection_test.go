//go:build integration

package redisstore

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// After a command has failed, the Redis client connects again and subscribes again. What it
// receives then must not be used: messages were lost that subscribers do not know of yet.
func TestNothingIsReceivedAfterACommandHasFailed(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		c := &connection{pubsub: s.client.Subscribe(ctx)}
		defer c.pubsub.Close()
		if err := c.send(func(p *redis.PubSub) error { return p.Subscribe(ctx, "t") }); err != nil {
			t.Fatal(err)
		}
		if received, err := c.receive(ctx, patience); err != nil {
			t.Fatalf("received %v, %v; want the answer to SUBSCRIBE", received, err)
		}
		p.cut(false)
		var failure error
		wait(t, "a command fails", func() error {
			failure = c.send(func(p *redis.PubSub) error { return p.Ping(ctx) })
			if failure == nil {
				return errors.New("no command has failed")
			}
			return nil
		})
		if received, err := c.receive(ctx, patience); !errors.Is(err, failure) {
			t.Errorf("received %v, %v; want the error of the command: %v", received, err, failure)
		}
	})
}
