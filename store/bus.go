package store

import (
	"context"
	"fmt"
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
		return fmt.Errorf("%w: message is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(message), MaxMessage)
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
		return fmt.Errorf("%w: the queue of a subscription must have 1 to %d messages, got %d", ErrInvalidArgument, MaxQueue, queue)
	}
	return nil
}
