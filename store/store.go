package store

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// Store is a [KV], a [Set], a [Log] and a [Bus]. Replicas that share a Store share their state.
type Store interface {
	KV
	Set
	Log
	Bus
}

// Join combines four parts, possibly of different backends, into a Store. All replicas must share all four.
func Join(kv KV, set Set, log Log, bus Bus) Store {
	return struct {
		KV
		Set
		Log
		Bus
	}{kv, set, log, bus}
}

var (
	// ErrNotFound reports that there is no value at a key or no entry in a stream: it
	// was never written, was deleted, or has expired.
	ErrNotFound = errors.New("store: not found")

	// ErrConflict reports that the condition of a write does not hold. Nothing was
	// written. The caller should read the item again before it retries.
	ErrConflict = errors.New("store: conflicting write")

	// ErrFull reports that a limit is reached. Nothing was written. A later write
	// succeeds once entries have expired or were deleted.
	ErrFull = storecheck.ErrFull

	// ErrInvalidArgument reports arguments that can never succeed: a key (of a value, set, member,
	// group, stream or topic) that is empty or longer than 16 KiB, a value or entry longer than
	// 17 MiB, a message longer than 64 KiB, a time to live or limit that is not positive, or a
	// number that is out of range. Every implementation enforces these limits.
	ErrInvalidArgument = storecheck.ErrInvalidArgument

	// ErrPurged reports that a [Log] has deleted some of the requested entries to stay
	// within its limits. A reader cannot continue without a gap, so no entry is returned.
	ErrPurged = errors.New("store: purged")
)

// KV maps keys to values with a time to live.
//
// Operations on one key are linearizable, across all replicas that share the KV. A KV is safe
// for concurrent use. Its methods return the errors of this package, possibly wrapped, and
// ctx.Err() when the context ends first. After any other error the caller cannot know whether
// a write happened.
type KV interface {
	// Get returns the item at key. It returns ErrNotFound if there is none.
	Get(ctx context.Context, key string) (Item, error)

	// Put writes value at key if the condition in opt holds, sets the time to live,
	// and returns the new version. The KV does not retain value. Put returns
	// ErrConflict, ErrFull or ErrInvalidArgument; the version is 0 then.
	Put(ctx context.Context, key string, value []byte, opt PutOptions) (version uint64, err error)

	// Touch extends the life of the item at key to at least ttl from now and returns
	// the item. It never shortens the life of an item, so that replicas can call it in
	// any order. It changes neither value nor version. Touch returns ErrNotFound if
	// there is no item, and ErrInvalidArgument if ttl is not positive.
	Touch(ctx context.Context, key string, ttl time.Duration) (Item, error)

	// Delete removes the item at key. It returns nil if there is none.
	Delete(ctx context.Context, key string) error
}

// Item is a value of a [KV] with its version.
type Item struct {
	// Value belongs to the store. The caller must not modify it. The store never changes it, not even after a later
	// write to the key.
	Value []byte

	// Version identifies this write of the key and is never 0. Every successful Put
	// assigns a version that the key did not have before, including before a deletion
	// or expiry. Versions have no order.
	Version uint64
}

// PutOptions are the time to live and the condition of a write to a [KV]. Without
// IfAbsent and IfVersion the write is unconditional. Setting both is ErrInvalidArgument.
type PutOptions struct {
	// TTL is the time to live from now. It is required and must be positive. An
	// implementation may round it up to the next millisecond.
	TTL time.Duration

	// IfAbsent makes Put return ErrConflict if there is an item at the key.
	IfAbsent bool

	// IfVersion, if not 0, makes Put return ErrConflict unless the item at the key has
	// this version.
	IfVersion uint64
}

// Set holds sets of strings with a time to live. Sets and the keys of a [KV] with the same names are independent.
// Operations on one set are linearizable, across all replicas that share the Set. A Set is safe for concurrent use, and
// its methods return the same kinds of errors as those of a KV.
type Set interface {
	// Add puts member into a set, and extends its life to at least ttl from now. It never shortens it. A set exists
	// while it has members. Add returns ErrFull for a new member if the Set is full, or if the set already has limit
	// members that have not expired; in the latter case the error is ErrConflict as well.
	Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error

	// Remove removes member from a set. It returns nil if the set does not contain it.
	Remove(ctx context.Context, set, member string) error

	// List returns the first members of a set that are greater than after, in
	// ascending order of their bytes, at most limit, which is 1 to 1,000. The empty
	// string is less than every member. To read a large set, a caller passes the last
	// member of the previous result. List returns no members and no error if there are
	// none.
	List(ctx context.Context, set, after string, limit int) ([]string, error)
}

// Log holds streams of numbered entries with a time to live. Streams are organized in
// groups. The streams of a group share one byte limit and expire together.
//
// A stream has one writer, which numbers its entries 1, 2, 3 and so on. The writer never uses a number twice, not even
// after all earlier entries were purged or have expired.
//
// A Log is safe for concurrent use. Its methods return the errors of this package,
// possibly wrapped, and ctx.Err() when the context ends first. After any other error
// the caller cannot know whether a write happened.
type Log interface {
	// Append adds an entry to a stream and creates the stream if necessary. The Log
	// does not retain entry. seq is the number of the entry: one more than the number
	// of the last entry, or any number from 1 to 2^53 if the stream has no entries.
	//
	// Afterwards Append purges the oldest entries of the stream, and then of the
	// group, that exceed the limits in opt. A Log that is full may also purge the
	// oldest entries of other groups.
	//
	// Append returns ErrConflict if seq is not the next number, and ErrFull if the entry
	// exceeds a limit by itself, or the Log is full and purges nothing. Nothing is written or
	// purged then.
	Append(ctx context.Context, key StreamKey, seq uint64, entry []byte, opt AppendOptions) error

	// ReadAfter returns the entries after number seq, oldest first. The first has the
	// number seq+1; 0 reads the whole stream. The caller owns the slice. The entries
	// belong to the Log, which never changes them; the caller must not modify them.
	//
	// ReadAfter returns ErrPurged if entry seq+1 was purged. It returns ErrNotFound if
	// the stream has no entries or seq is greater than the number of its last entry.
	ReadAfter(ctx context.Context, key StreamKey, seq uint64) ([][]byte, error)

	// Drop deletes all streams of a group. It returns nil if there are none.
	Drop(ctx context.Context, group string) error
}

// StreamKey identifies a stream of a [Log]. Group starts with the key of a principal,
// as every key does. Stream is the name of the stream within the group.
type StreamKey struct {
	Group, Stream string
}

// AppendOptions are the time to live and the limits of an append to a [Log]. All
// fields are required and must be positive.
type AppendOptions struct {
	// TTL is the time to live of the whole group from now. It never shortens the life
	// of the group. An implementation may round it up to the next millisecond.
	TTL time.Duration

	// MaxEntries is the maximum number of entries in the stream.
	MaxEntries int

	// MaxBytes is the maximum size of the group in bytes: the sum of the lengths of
	// its entries, plus 128 for each.
	MaxBytes int64
}

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
	// process. To send more than 64 KiB, a publisher writes the content to a KV or Log and
	// publishes its key. The Bus does not retain message. Publish does not wait for subscribers
	// and succeeds if there are none. After an error other than ErrInvalidArgument the
	// caller cannot know whether the message was sent.
	Publish(ctx context.Context, topic string, message []byte) error

	// Subscribe returns a subscription to topic. It receives every message, or a
	// report of the loss, that is published after Subscribe returns. queue is the
	// number of messages that the subscription holds until they are received, 1 to
	// 1,024. A subscriber that only needs to know that there was a message uses 1.
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

// Subscription receives the messages of one topic of a [Bus].
type Subscription struct {
	// C delivers the messages. Close and the end of the Bus close it; messages that
	// are in the queue can still be received then.
	C <-chan Message

	close func()
}

// NewSubscription returns a Subscription for an implementation of [Bus]. close ends it and must
// close the channel; it may be called more than once and concurrently.
func NewSubscription(c <-chan Message, close func()) *Subscription {
	return &Subscription{C: c, close: close}
}

// Close ends the subscription. It is safe to call it more than once and concurrently.
func (s *Subscription) Close() { s.close() }
