package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	if err := CheckStreamKey(key); err != nil {
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
		return fmt.Errorf("%w: entry is too large for its group: %d bytes with overhead, the limit is %d", ErrFull, need, opt.MaxBytes)
	}
	return nil
}

// CheckStreamKey reports whether both names of a stream are valid keys. Its errors
// wrap [ErrInvalidArgument].
func CheckStreamKey(key StreamKey) error {
	if err := CheckKey(key.Group); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if err := CheckKey(key.Stream); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}
