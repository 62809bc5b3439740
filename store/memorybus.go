package store

import "context"

// Publish implements [Bus].
func (m *Memory) Publish(ctx context.Context, topic string, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := CheckPublish(topic, message); err != nil {
		return err
	}
	m.subscribers.Deliver(topic, append(make([]byte, 0, len(message)), message...))
	return nil
}

// Subscribe implements [Bus].
func (m *Memory) Subscribe(ctx context.Context, topic string, queue int) (*Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := CheckSubscribe(topic, queue); err != nil {
		return nil, err
	}
	return m.subscribers.Subscribe(topic, queue, nil), nil
}
