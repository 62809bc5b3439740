package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits that every implementation enforces.
const (
	// MaxKey is the maximum length of a key, in bytes. The key of a principal takes at
	// most 9.3 KB of it.
	MaxKey = 16 << 10

	// MaxValue is the maximum length of a value, in bytes. It is large enough for the
	// largest task result and its metadata.
	MaxValue = 17 << 20

	// MaxList is the maximum number of members that [KV.List] returns at a time.
	MaxList = 1000
)

var (
	// ErrNotFound reports that there is no value at a key or no entry in a stream: it
	// was never written, was deleted, or has expired.
	ErrNotFound = errors.New("store: not found")

	// ErrConflict reports that the condition of a write does not hold. Nothing was
	// written. The caller should read the item again before it retries.
	ErrConflict = errors.New("store: conflicting write")

	// ErrFull reports that a limit is reached. Nothing was written. A later write
	// succeeds once entries have expired or were deleted.
	ErrFull = errors.New("store: full")

	// ErrInvalidArgument reports arguments that can never succeed, such as an empty key, a key
	// or value that is too long, or a time to live that is not positive.
	ErrInvalidArgument = errors.New("store: invalid argument")
)

// KV maps keys to values, and holds sets of strings, with a time to live. Keys and sets
// with the same name are independent.
//
// Operations on one key or one set are linearizable, across all replicas that share the
// KV. A KV is safe for concurrent use. Its methods return the errors of this package, possibly
// wrapped, and ctx.Err() when the context ends first. After any other error the caller
// cannot know whether a write happened.
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

	// Add makes member a member of a set and extends its life to at least the time to
	// live from now. It never shortens it. A set exists while it has members. Add returns
	// ErrFull if member is new and the KV is full or the set has opt.Max members; in the
	// latter case the error is ErrConflict as well. Add returns ErrInvalidArgument if
	// CheckAdd does.
	Add(ctx context.Context, set, member string, opt AddOptions) error

	// Remove removes member from a set. It returns nil if it is no member.
	Remove(ctx context.Context, set, member string) error

	// List returns the first members of a set that are greater than after, in
	// ascending order of their bytes, at most limit, which is 1 to MaxList. The empty
	// string is less than every member. To read a large set, a caller passes the last
	// member of the previous result. List returns no members and no error if there are
	// none, and ErrInvalidArgument if limit is out of range.
	List(ctx context.Context, set, after string, limit int) ([]string, error)
}

// Item is a value of a [KV] with its version.
type Item struct {
	// Value belongs to the store. The caller must not modify it. The store never
	// changes it, also not after a later write to the key.
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

// AddOptions are the time to live and the limit of an addition to a set of a [KV]. Both
// fields are required and must be positive.
type AddOptions struct {
	// TTL is the time to live of the member from now. An implementation may round it up
	// to the next millisecond.
	TTL time.Duration

	// Max is the maximum number of members of the set. Members that have expired do not
	// count.
	Max int
}

// CheckPut reports whether the arguments of a Put are valid. Implementations call it
// first. Its errors wrap [ErrInvalidArgument].
func CheckPut(key string, value []byte, opt PutOptions) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: value is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(value), MaxValue)
	}
	if opt.IfAbsent && opt.IfVersion != 0 {
		return fmt.Errorf("%w: IfAbsent and IfVersion must not both be set", ErrInvalidArgument)
	}
	return CheckTTL(opt.TTL)
}

// CheckAdd reports whether the arguments of an Add are valid: a set and a member are keys.
// Its errors wrap [ErrInvalidArgument].
func CheckAdd(set, member string, opt AddOptions) error {
	if err := CheckKey(set); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	if err := CheckKey(member); err != nil {
		return fmt.Errorf("member: %w", err)
	}
	if opt.Max <= 0 {
		return fmt.Errorf("%w: Max must be positive, got %d", ErrInvalidArgument, opt.Max)
	}
	return CheckTTL(opt.TTL)
}

// CheckLimit reports whether the limit of a List is valid. Its errors wrap
// [ErrInvalidArgument].
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxList {
		return fmt.Errorf("%w: limit must be 1 to %d, got %d", ErrInvalidArgument, MaxList, limit)
	}
	return nil
}

// CheckKey reports whether a key is valid: 1 to [MaxKey] bytes of any content. Its
// errors wrap [ErrInvalidArgument].
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: key is empty", ErrInvalidArgument)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: key is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(key), MaxKey)
	}
	return nil
}

// CheckTTL reports whether a time to live is valid: it must be positive. Its errors
// wrap [ErrInvalidArgument].
func CheckTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: time to live must be positive, got %v", ErrInvalidArgument, ttl)
	}
	return nil
}

// MaxSeq is the largest number of an entry of a [Log]: the largest integer up to which a
// floating-point number is exact, for stores that compute with these.
const MaxSeq = 1 << 53

// LogOverhead is the number of bytes that an entry of a [Log] counts in addition to
// its length.
const LogOverhead = 128

// ErrPurged reports that a [Log] has deleted some of the requested entries to stay
// within its limits. A reader cannot continue without a gap, so no entry is returned.
var ErrPurged = errors.New("store: purged")

// Log holds streams of numbered entries with a time to live. Streams are organized in
// groups. The streams of a group share one byte limit and expire together.
//
// A stream has one writer, which numbers its entries 1, 2, 3 and so on. The writer
// never uses a number twice, also not when all earlier entries were purged or have
// expired.
//
// A Log is safe for concurrent use. Its methods return the errors of this package,
// possibly wrapped, and ctx.Err() when the context ends first. After any other error
// the caller cannot know whether a write happened.
type Log interface {
	// Append adds an entry to a stream and creates the stream if necessary. The Log
	// does not retain entry. seq is the number of the entry: one more than the number
	// of the last entry, or any number from 1 to MaxSeq if the stream has no entries.
	//
	// Afterwards Append purges the oldest entries of the stream, and then of the
	// group, that exceed the limits in opt. A Log that is full may also purge the
	// oldest entries of other groups.
	//
	// Append returns ErrConflict if seq is not the next number; ErrFull if the entry
	// exceeds a limit by itself, or the Log is full and purges nothing; and ErrInvalidArgument
	// if CheckAppend does. Nothing is written or purged then.
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
// as every key does. Stream is the name of the stream within the group. Each is 1 to
// [MaxKey] bytes long.
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
	// its entries, plus LogOverhead for each.
	MaxBytes int64
}

// CheckAppend reports whether the arguments of an Append are valid. Implementations
// call it first. Its errors wrap [ErrInvalidArgument], or [ErrFull] if the entry by itself
// exceeds MaxBytes.
func CheckAppend(key StreamKey, seq uint64, entry []byte, opt AppendOptions) error {
	if err := checkStreamKey(key); err != nil {
		return err
	}
	if seq == 0 || seq > MaxSeq {
		return fmt.Errorf("%w: the number of an entry must be 1 to 2^53, got %d", ErrInvalidArgument, seq)
	}
	if len(entry) > MaxValue {
		return fmt.Errorf("%w: entry is too long: %d bytes, the limit is %d", ErrInvalidArgument, len(entry), MaxValue)
	}
	if opt.MaxEntries <= 0 || opt.MaxBytes <= 0 {
		return fmt.Errorf("%w: MaxEntries and MaxBytes must be positive", ErrInvalidArgument)
	}
	if err := CheckTTL(opt.TTL); err != nil {
		return err
	}
	if need := int64(len(entry)) + LogOverhead; need > opt.MaxBytes {
		return fmt.Errorf("%w: entry is too large for its group: %d bytes with overhead, the limit is %d", ErrFull,
			need, opt.MaxBytes)
	}
	return nil
}

// checkStreamKey reports whether both names of a stream are valid keys. Its errors
// wrap [ErrInvalidArgument].
func checkStreamKey(key StreamKey) error {
	if err := CheckKey(key.Group); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if err := CheckKey(key.Stream); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}
