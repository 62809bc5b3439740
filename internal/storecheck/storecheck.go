// Package storecheck checks the arguments of store operations against limits that hold for every implementation of
// package store. The errors wrap [ErrInvalidArgument] or [ErrFull], which package store exports.
package storecheck

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Limits of every implementation. Package store states them.
const (
	MaxKey     = 16 << 10 // bytes of a key, a member, a group, a stream or a topic
	MaxValue   = 17 << 20 // bytes of a value or an entry: the largest task result and its metadata fit
	MaxList    = 1000     // members that List returns at a time
	MaxMessage = 64 << 10 // bytes of a message
	MaxQueue   = 1024     // messages that a subscription holds

	// MaxSeq is the largest number of an entry: up to it, floating-point numbers are exact, for stores that compute
	// with them.
	MaxSeq = 1 << 53
	// LogOverhead is how many bytes each entry counts in addition to its length.
	LogOverhead = 128
)

// Errors of package store.
var (
	ErrInvalidArgument = errors.New("store: invalid argument")
	ErrFull            = errors.New("store: full")
)

// Key checks a key.
func Key(key string) error {
	if key == "" {
		return fmt.Errorf("%w: key is empty", ErrInvalidArgument)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: key is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(key), MaxKey)
	}
	return nil
}

// keyOf checks a key that has a name.
func keyOf(name, key string) error {
	if err := Key(key); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// TTL checks a time to live.
func TTL(ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: time to live must be positive, got %v", ErrInvalidArgument, ttl)
	}
	return nil
}

// Put checks the arguments of a Put.
func Put(key string, value []byte, ttl time.Duration, ifAbsent bool, ifVersion uint64) error {
	if err := Key(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: value is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(value), MaxValue)
	}
	if ifAbsent && ifVersion != 0 {
		return fmt.Errorf("%w: IfAbsent and IfVersion must not both be set", ErrInvalidArgument)
	}
	return TTL(ttl)
}

// Add checks the arguments of an Add.
func Add(set, member string, ttl time.Duration, limit int) error {
	if err := cmp.Or(keyOf("set", set), keyOf("member", member)); err != nil {
		return err
	}
	if limit <= 0 {
		return fmt.Errorf("%w: limit must be positive, got %d", ErrInvalidArgument, limit)
	}
	return TTL(ttl)
}

// List checks the limit of a List.
func List(limit int) error {
	if limit < 1 || limit > MaxList {
		return fmt.Errorf("%w: limit must be 1 to %d, got %d", ErrInvalidArgument, MaxList, limit)
	}
	return nil
}

// Append checks the arguments of an Append. The error wraps ErrFull if the entry by itself exceeds maxBytes.
func Append(
	group, stream string, seq uint64, entry []byte, ttl time.Duration, maxEntries int, maxBytes int64,
) error {
	if err := cmp.Or(keyOf("group", group), keyOf("stream", stream)); err != nil {
		return err
	}
	if seq == 0 || seq > MaxSeq {
		return fmt.Errorf("%w: the number of an entry must be 1 to 2^53, got %d", ErrInvalidArgument, seq)
	}
	if len(entry) > MaxValue {
		return fmt.Errorf("%w: entry is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(entry), MaxValue)
	}
	if maxEntries <= 0 || maxBytes <= 0 {
		return fmt.Errorf("%w: MaxEntries and MaxBytes must be positive", ErrInvalidArgument)
	}
	if err := TTL(ttl); err != nil {
		return err
	}
	if need := int64(len(entry)) + LogOverhead; need > maxBytes {
		return fmt.Errorf("%w: entry is too large for its group: %d bytes with overhead, the limit is %d",
			ErrFull, need, maxBytes)
	}
	return nil
}

// Publish checks the arguments of a Publish.
func Publish(topic string, message []byte) error {
	if err := keyOf("topic", topic); err != nil {
		return err
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("%w: message is too long: %d bytes, the limit is %d",
			ErrInvalidArgument, len(message), MaxMessage)
	}
	return nil
}

// Subscribe checks the arguments of a Subscribe.
func Subscribe(topic string, queue int) error {
	if err := keyOf("topic", topic); err != nil {
		return err
	}
	if queue < 1 || queue > MaxQueue {
		return fmt.Errorf("%w: the queue of a subscription must have 1 to %d messages, got %d",
			ErrInvalidArgument, MaxQueue, queue)
	}
	return nil
}
