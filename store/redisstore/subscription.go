package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/store"
)

// Times for the connection of the subscriptions.
const (
	pingInterval   = 3 * time.Second
	silenceTimeout = 10 * time.Second // time without any message, including answers to pings
	minBackoff     = 50 * time.Millisecond
	maxBackoff     = 2 * time.Second
)

// maxBatch is the maximum number of topics in one command.
const maxBatch = 1000

// serve connects again and again until ctx ends.
func (b *bus) serve(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for backoff := minBackoff; ctx.Err() == nil; {
		begun := time.Now()
		b.connect(ctx)
		if time.Since(begun) > b.silence {
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connect uses one connection until it fails or ctx ends.
func (b *bus) connect(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.reset()
	c := &connection{pubsub: b.client.Subscribe(ctx)}
	done := make(chan struct{})
	var readErr error
	go func() {
		defer close(done)
		defer cancel()
		readErr = b.read(ctx, c)
	}()
	err := b.write(ctx, c)
	cancel()
	_ = c.pubsub.Close() // ends read
	<-done
	if err == nil {
		err = readErr
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure = err
}

// reset prepares for a new connection, on which nothing is subscribed.
func (b *bus) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range b.topics {
		t.subscribed, t.awaited = false, 0
		t.deactivate()
		b.mark(name, t)
	}
}

// deactivate records that Redis no longer sends messages of the topic.
func (t *topic) deactivate() {
	if t.active {
		t.active, t.gap, t.ready = false, true, make(chan struct{})
	}
}

// write sends the commands for changes, and pings, until there is an error or ctx ends. It
// returns nil if ctx ends.
func (b *bus) write(ctx context.Context, c *connection) error {
	ping := time.NewTicker(b.ping)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-ping.C:
			err = c.send(func(p *redis.PubSub) error { return p.Ping(ctx) })
		case <-b.changed:
			subscribe, unsubscribe := b.commands()
			if len(unsubscribe) > 0 {
				err = c.send(func(p *redis.PubSub) error { return p.Unsubscribe(ctx, unsubscribe...) })
			}
			if len(subscribe) > 0 && err == nil {
				err = c.send(func(p *redis.PubSub) error { return p.Subscribe(ctx, subscribe...) })
			}
		}
		if err != nil {
			return err
		}
	}
}

// commands returns the channels to subscribe and to unsubscribe, and records the change.
func (b *bus) commands() (subscribe, unsubscribe []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.changes), maxBatch)
	for _, name := range b.changes[:n] {
		t := b.topics[name]
		t.dirty = false
		switch wanted := t.subscriptions > 0; {
		case wanted && !t.subscribed:
			t.subscribed = true
			t.awaited++
			subscribe = append(subscribe, b.prefix+name)
		case !wanted && t.subscribed:
			t.subscribed = false
			t.deactivate()
			t.gap = false // nobody is subscribed who could miss a message
			unsubscribe = append(unsubscribe, b.prefix+name)
		}
		b.forget(name, t)
	}
	b.changes = b.changes[n:]
	if len(b.changes) > 0 {
		b.wake()
	} else {
		b.changes = nil
	}
	return subscribe, unsubscribe
}

// forget removes a topic from the map if nothing refers to it. mu must be held.
func (b *bus) forget(name string, t *topic) {
	if t.subscriptions == 0 && !t.subscribed && t.awaited == 0 && !t.dirty {
		delete(b.topics, name)
	}
}

// read delivers messages until there is an error.
func (b *bus) read(ctx context.Context, c *connection) error {
	for {
		received, err := c.receive(ctx, b.silence)
		if err != nil {
			return err
		}
		switch m := received.(type) {
		case *redis.Message:
			b.local.Deliver(strings.TrimPrefix(m.Channel, b.prefix), store.Message{Data: []byte(m.Payload)})
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				b.activate(strings.TrimPrefix(m.Channel, b.prefix))
			}
		}
	}
}

// activate handles the answer to SUBSCRIBE: from now on, Redis sends messages of the topic.
func (b *bus) activate(name string) {
	b.mu.Lock()
	lost := false
	if t := b.topics[name]; t != nil {
		t.awaited--
		if t.subscribed && t.awaited == 0 && !t.active {
			t.active = true
			close(t.ready)
			lost, t.gap = t.gap, false
		}
		b.forget(name, t)
	}
	b.mu.Unlock()
	if lost {
		b.local.ReportLoss(name)
	}
}
