package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LogOverhead is what each entry of a [Log] counts beside its own bytes.
const LogOverhead = 128

// ErrPurged says that entries which were asked for are no longer held: a bound made room for newer
// ones. What is left does not connect, so none of it is returned.
var ErrPurged = errors.New("store: purged")

// Log keeps streams of entries, for a while. The streams of one group share a bound, and end together.
//
// A stream has one writer, which numbers its entries: 1, 2, 3 and so on. So a number is never used
// twice, not even when everything that bore one has been purged or has expired in between.
type Log interface {
	// Append adds an entry to a stream, which begins with its first. Seq is that of the last entry and
	// 1, or anything above 0 if none is held; any other is ErrConflict. It keeps no reference to entry.
	//
	// What exceeds the bounds in opt afterwards is purged: the oldest entries of the stream, then those
	// of the group. An entry that exceeds them alone is ErrFull, and nothing is written or purged. A
	// store that is full purges the oldest entries of others, or returns ErrFull too. Arguments out of
	// the contract are ErrInvalid.
	Append(ctx context.Context, key StreamKey, seq uint64, entry []byte, opt AppendOptions) error

	// ReadAfter returns the entries that follow number seq, oldest first: the first one has number
	// seq+1. The slice is the caller's; the entries belong to the store, must not be modified, and stay
	// as they are. It returns ErrPurged if some are no longer held, and ErrNotFound if nothing of the
	// stream is, or if seq is above the number of its last entry.
	ReadAfter(ctx context.Context, key StreamKey, seq uint64) ([][]byte, error)

	// Drop ends all streams of a group. That there are none is no error.
	Drop(ctx context.Context, group string) error
}

// StreamKey names a stream. Group starts with the key of a principal, as every key does; Stream is the
// stream's name within the group.
type StreamKey struct {
	Group, Stream string
}

// AppendOptions bounds what is held. All of its fields are required.
type AppendOptions struct {
	// TTL is how long the whole group is held from now. It never shortens a life. An implementation may
	// round it up to the next millisecond.
	TTL time.Duration

	// MaxEntries bounds the entries of the stream.
	MaxEntries int

	// MaxBytes bounds the entries of the group: the sum of their lengths, and LogOverhead for each.
	MaxBytes int64
}

// CheckAppend tells an implementation whether the arguments of an Append are within the contract. Its
// errors wrap ErrInvalid, or ErrFull if the entry alone exceeds the bounds.
func CheckAppend(key StreamKey, seq uint64, entry []byte, opt AppendOptions) error {
	if err := CheckStreamKey(key); err != nil {
		return err
	}
	if seq == 0 {
		return fmt.Errorf("%w: entries are numbered from 1", ErrInvalid)
	}
	if len(entry) > MaxValue {
		return fmt.Errorf("%w: the entry is %d bytes long, at most %d are kept", ErrInvalid, len(entry), MaxValue)
	}
	if opt.MaxEntries <= 0 || opt.MaxBytes <= 0 {
		return fmt.Errorf("%w: bounds above 0 are required", ErrInvalid)
	}
	if err := CheckTTL(opt.TTL); err != nil {
		return err
	}
	if int64(len(entry))+LogOverhead > opt.MaxBytes {
		return fmt.Errorf("%w: the entry is %d bytes long, and its group may hold %d", ErrFull, len(entry), opt.MaxBytes)
	}
	return nil
}

// CheckStreamKey tells an implementation whether the names of a stream are within the contract: each is
// as a key. Its errors wrap ErrInvalid.
func CheckStreamKey(key StreamKey) error {
	if err := CheckKey(key.Group); err != nil {
		return err
	}
	return CheckKey(key.Stream)
}
