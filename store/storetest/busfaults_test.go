package storetest

import (
	"bytes"
	"context"
	"sync"

	"github.com/parley-mcp/parley/store"
)

// withMessage makes a Bus publish other messages.
func withMessage(change func(message []byte) [][]byte) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			for _, message := range change(message) {
				if err := m.Publish(ctx, topic, message); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// ownBus makes a Bus of other subscribers. deliver is called for each message.
func ownBus(subscribe func(all *store.Subscribers, topic string, queue int) *store.Subscription, deliver func(all *store.Subscribers, topic string, message []byte)) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		var all store.Subscribers
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			deliver(&all, topic, message)
			return nil
		}
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			return subscribe(&all, topic, queue), nil
		}
	}
}

func ownSubscribe(all *store.Subscribers, topic string, queue int) *store.Subscription {
	return all.Subscribe(topic, queue, nil)
}

var busFaults = []fault{
	{"Bus/", "delivers nothing", withMessage(func([]byte) [][]byte { return nil })},
	{"Bus/", "delivers messages twice", withMessage(func(message []byte) [][]byte { return [][]byte{message, message} })},
	{"Bus/", "trims messages", withMessage(func(message []byte) [][]byte { return [][]byte{bytes.TrimSpace(message)} })},
	{"Bus/", "delays messages until the next", func(m full, h *hooked) {
		var mu sync.Mutex
		delayed := make(map[string][]byte)
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			mu.Lock()
			defer mu.Unlock()
			if previous, ok := delayed[topic]; ok {
				delete(delayed, topic)
				if err := m.Publish(ctx, topic, message); err != nil {
					return err
				}
				return m.Publish(ctx, topic, previous)
			}
			delayed[topic] = message
			return nil
		}
	}},
	{"Bus/", "keeps messages for later subscribers", func(m full, h *hooked) {
		var mu sync.Mutex
		kept := make(map[string][]byte)
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			mu.Lock()
			defer mu.Unlock()
			kept[topic] = message
			return m.Publish(ctx, topic, message)
		}
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			mu.Lock()
			defer mu.Unlock()
			s, err := m.Subscribe(ctx, topic, queue)
			if message, ok := kept[topic]; ok && err == nil {
				_ = m.Publish(ctx, topic, message)
			}
			return s, err
		}
	}},
	{"Bus/", "fails without subscribers", func(m full, h *hooked) {
		h.publish = func(ctx context.Context, topic string, message []byte) error { return store.ErrNotFound }
	}},
	{"Bus/", "retains messages", ownBus(ownSubscribe, func(all *store.Subscribers, topic string, message []byte) { all.Deliver(topic, message) })},
	{"Bus/ReceivedMessageNeverChanges", "reuses the memory of messages", func(m full, h *hooked) {
		var all store.Subscribers
		memory := make([]byte, 5)
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			all.Deliver(topic, memory[:copy(memory, message)])
			return nil
		}
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			return all.Subscribe(topic, queue, nil), nil
		}
	}},
	{"Bus/", "reports loss with every message", ownBus(ownSubscribe, func(all *store.Subscribers, topic string, message []byte) {
		all.Deliver(topic, bytes.Clone(message))
		all.ReportLoss(topic)
	})},
	{"Bus/", "has queues that are too long", func(m full, h *hooked) {
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			return m.Subscribe(ctx, topic, 1000)
		}
	}},
	{"Bus/", "has queues that are too short", func(m full, h *hooked) {
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			return m.Subscribe(ctx, topic, min(queue, 2))
		}
	}},
	{"Bus/", "closes all subscriptions of a topic together", ownBus(func(all *store.Subscribers, topic string, queue int) *store.Subscription {
		return all.Subscribe(topic, queue, all.Close)
	}, func(all *store.Subscribers, topic string, message []byte) { all.Deliver(topic, bytes.Clone(message)) })},
	{"Bus/", "does not close subscriptions", func(m full, h *hooked) {
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			real, err := m.Subscribe(ctx, topic, queue)
			if err != nil {
				return nil, err
			}
			var unused store.Subscribers
			s := unused.Subscribe(topic, queue, nil)
			s.C = real.C
			return s, nil
		}
	}},
	{"Bus/", "discards the queue at Close", func(m full, h *hooked) {
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			var all store.Subscribers
			real, err := m.Subscribe(ctx, topic, queue)
			if err != nil {
				return nil, err
			}
			s := all.Subscribe(topic, queue, func() {
				real.Close()
				for range real.C {
				}
			})
			s.C = real.C
			return s, nil
		}
	}},
	{"Bus/", "blocks publishers while a queue is full", func(m full, h *hooked) {
		published := make(chan struct{}, 200)
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			select {
			case published <- struct{}{}:
				return m.Publish(ctx, topic, message)
			default:
				return context.DeadlineExceeded
			}
		}
	}},
}
