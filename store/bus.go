package store

import (
	"context"
	"fmt"
	"sync"
)

// Limits of a [Bus] that every implementation enforces.
const (
	// MaxMessage is the maximum length of a message, in bytes. To send more, a
	// publisher writes the content to a [KV] or [Log] and publishes its key.
	MaxMessage = 64 << 10

	// MaxQueue is the maximum number of messages that a subscription holds.
	MaxQueue = 1024
)

// Bus sends messages to the current subscribers of a topic, on every replica.
//
// A Bus stores nothing. Each subscription receives each message at most once, and the
// messages of one publisher in the order of its calls. A subscription that loses
// messages receives a [Message] that says so. State that must survive belongs in a
// [KV] or [Log]; a message says that it has changed.
//
// A Bus is safe for concurrent use. Its methods return the errors of this package,
// possibly wrapped, and ctx.Err() when the context ends first.
type Bus interface {
	// Publish sends message to the subscriptions of topic, including those of this
	// process. The Bus does not retain message. Publish does not wait for subscribers
	// and succeeds if there are none. After an error other than ErrInvalidArgument the
	// caller cannot know whether the message was sent.
	Publish(ctx context.Context, topic string, message []byte) error

	// Subscribe returns a subscription to topic. It receives every message, or a
	// report of the loss, that is published after Subscribe returns. queue is the
	// number of messages that the subscription holds until they are received, 1 to
	// MaxQueue. A subscriber that only needs to know that there was a message uses 1.
	// The caller must close the subscription.
	Subscribe(ctx context.Context, topic string, queue int) (*Subscription, error)
}

// Message is a message of a [Bus], or the report of lost messages.
type Message struct {
	// Data is the content. It belongs to the Bus and may be shared with other
	// subscribers. The receiver must not modify it.
	Data []byte

	// Lost reports that messages may have been lost between the previous and the next
	// message, because the queue of the subscription was full or the connection of the
	// Bus was interrupted. Data is nil. After an interruption it arrives when the
	// connection is restored. The subscriber must read the state that the
	// messages are about. What it reads after this message includes every change that
	// the lost messages announced.
	Lost bool
}

// CheckPublish reports whether the arguments of a Publish are valid: a topic is a key,
// and the message has at most [MaxMessage] bytes. Its errors wrap [ErrInvalidArgument].
func CheckPublish(topic string, message []byte) error {
	if err := CheckKey(topic); err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("%w: message is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(message),
			MaxMessage)
	}
	return nil
}

// CheckSubscribe reports whether the arguments of a Subscribe are valid. Its errors wrap
// [ErrInvalidArgument].
func CheckSubscribe(topic string, queue int) error {
	if err := CheckKey(topic); err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	if queue < 1 || queue > MaxQueue {
		return fmt.Errorf("%w: the queue of a subscription must have 1 to %d messages, got %d", ErrInvalidArgument,
			MaxQueue, queue)
	}
	return nil
}

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

// Subscription receives the messages of one topic of a [Bus].
type Subscription struct {
	// C delivers the messages. Close and the end of the Bus close it; messages that
	// are in the queue can still be received then.
	C <-chan Message

	all    *Subscribers
	topic  string
	closed func() // called once by Close; may be nil

	// Guarded by all.mu. The channel has one slot more than the queue, for a report of
	// loss. While lost is set, the report is in the channel or was received, and it is
	// the last message in the channel.
	c    chan Message
	lost bool
	done bool
}

// Close ends the subscription. It is safe to call it more than once and concurrently.
func (s *Subscription) Close() {
	s.all.mu.Lock()
	first := s.end()
	s.all.mu.Unlock()
	if first && s.closed != nil {
		s.closed()
	}
}

// end requires that all.mu is held. It reports whether the subscription was open.
func (s *Subscription) end() bool {
	if s.done {
		return false
	}
	s.done = true
	close(s.c)
	of := s.all.topics[s.topic]
	delete(of, s)
	if len(of) == 0 {
		delete(s.all.topics, s.topic)
	}
	return true
}

// send requires that all.mu is held and s is open.
func (s *Subscription) send(m Message) {
	if s.lost {
		if len(s.c) > 0 {
			return // the subscriber has not received the report yet, which covers m too
		}
		s.lost = false
	}
	if m.Lost || len(s.c) == cap(s.c)-1 {
		s.lost = true
		m = Message{Lost: true}
	}
	s.c <- m // never blocks: only send adds messages, and there is a free slot
}

// Subscribers are the subscriptions of one process. Implementations of [Bus] use it to
// deliver messages. It never blocks. The zero value has no subscriptions. It is safe
// for concurrent use and must not be copied.
type Subscribers struct {
	mu     sync.Mutex
	topics map[string]map[*Subscription]struct{}
	closed bool
}

// Subscribe adds a subscription. The arguments must satisfy [CheckSubscribe]. closed is
// called when the subscriber closes the subscription, but not by Subscribers.Close. It
// may be nil. After Close, Subscribe returns a closed subscription.
func (all *Subscribers) Subscribe(topic string, queue int, closed func()) *Subscription {
	c := make(chan Message, queue+1)
	s := &Subscription{C: c, all: all, topic: topic, closed: closed, c: c}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		s.done = true
		close(c)
		return s
	}
	if all.topics == nil {
		all.topics = make(map[string]map[*Subscription]struct{})
	}
	of := all.topics[topic]
	if of == nil {
		of = make(map[*Subscription]struct{}, 1)
		all.topics[topic] = of
	}
	of[s] = struct{}{}
	return s
}

// Deliver sends a message to the subscriptions of topic, or reports its loss to those
// whose queue is full. message must not change afterwards.
func (all *Subscribers) Deliver(topic string, message []byte) {
	all.send(topic, Message{Data: message})
}

// ReportLoss reports to the subscriptions of topic that messages may have been lost.
func (all *Subscribers) ReportLoss(topic string) {
	all.send(topic, Message{Lost: true})
}

func (all *Subscribers) send(topic string, m Message) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.topics[topic] {
		s.send(m)
	}
}

// Close closes every subscription.
func (all *Subscribers) Close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, of := range all.topics {
		for s := range of {
			s.end()
		}
	}
}
