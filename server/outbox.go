package server

import (
	"context"
	"sync"
)

// outbox holds the messages to other replicas that wait to be published, each once. Before open it drops
// them. It is safe for concurrent use.
type outbox[T comparable] struct {
	mu      sync.Mutex
	max     int
	instead T              // replaces all messages when the outbox is full
	pending map[T]struct{} // nil before open
	wake    chan struct{}
}

func (o *outbox[T]) open(limit int, instead T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.max, o.instead, o.pending, o.wake = limit, instead, make(map[T]struct{}), make(chan struct{}, 1)
}

func (o *outbox[T]) add(message T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending == nil {
		return
	}
	if len(o.pending) >= o.max {
		clear(o.pending)
		message = o.instead
	}
	o.pending[message] = struct{}{}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox[T]) take() map[T]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.pending
	o.pending = make(map[T]struct{})
	return all
}

// publish passes the messages to send until ctx ends. After an error it calls failed, pauses, and sends the
// message that failed returns, if repeat is set.
func (o *outbox[T]) publish(ctx context.Context, send func(context.Context, T) error, failed func(T, error) (again T, repeat bool)) {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
		for message := range o.take() {
			err := send(ctx, message)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if again, repeat := failed(message, err); repeat {
				o.add(again)
			}
			if !sleep(ctx, replicaRetry) {
				return
			}
		}
	}
}
