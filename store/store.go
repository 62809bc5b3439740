package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds that every implementation enforces.
const (
	// MaxKey bounds a key, in bytes. The key of a principal is at most 9.3 KB of it.
	MaxKey = 16 << 10

	// MaxValue bounds a value, in bytes: the largest result of a task, and room for what surrounds it.
	MaxValue = 17 << 20
)

var (
	// ErrNotFound says that a key has no value: never had, was deleted, or expired.
	ErrNotFound = errors.New("store: not found")

	// ErrConflict says that the condition of a Put does not hold. Nothing was written. Read the
	// item again and decide anew.
	ErrConflict = errors.New("store: conflicting write")

	// ErrFull says that the store's cap is reached. Nothing was written. Entries that expire or are
	// deleted make room.
	ErrFull = errors.New("store: full")

	// ErrInvalid says that the arguments can never succeed: an empty or over-long key, an over-long
	// value, no time to live, contradictory conditions.
	ErrInvalid = errors.New("store: invalid argument")
)

// Store is all that sessions and their streams need to survive a connection.
//
// Implementations are safe for concurrent use. They return the sentinel errors of this package,
// possibly wrapped, and the context's error when the context ends first. After any other error it is
// unknown whether a write happened.
type Store interface {
	KV
	Log
}

// KV maps keys to values, for a while. Operations on one key are linearizable, on all replicas.
type KV interface {
	// Get returns the item at key, or ErrNotFound.
	Get(ctx context.Context, key string) (Item, error)

	// Put writes value at key and sets its time to live anew, if the condition in opt holds, and
	// returns the new version. It keeps no reference to value. It returns ErrConflict, ErrFull or
	// ErrInvalid.
	Put(ctx context.Context, key string, value []byte, opt PutOptions) (version uint64, err error)

	// Touch makes the item at key live for at least ttl from now, and returns it: what is used is
	// read and kept in one round trip. It never shortens a life, so that replicas may touch without
	// agreeing on an order, and it leaves value and version alone. It returns ErrNotFound or
	// ErrInvalid.
	Touch(ctx context.Context, key string, ttl time.Duration) (Item, error)

	// Delete removes the item at key. That there is none is no error.
	Delete(ctx context.Context, key string) error
}

// Item is a value and what is needed to replace exactly this value.
type Item struct {
	// Value belongs to the store and must not be modified. It stays as it is for as long as it is
	// referenced, whatever happens to the key.
	Value []byte

	// Version is never 0. It tells the same from not the same and nothing else: each successful Put
	// gives the key a version that it never had before, deletion and expiry in between included.
	Version uint64
}

// PutOptions says for how long a value lives, and on what condition it is written. At most one of the
// conditions may be set; with none, the value is written unconditionally.
type PutOptions struct {
	// TTL is the time to live. It is required: 0 or less is ErrInvalid. An implementation may round
	// it up to the next millisecond.
	TTL time.Duration

	// IfAbsent writes only if there is no item at the key.
	IfAbsent bool

	// IfVersion, unless 0, writes only if the item at the key has this version.
	IfVersion uint64
}

// CheckPut tells an implementation whether the arguments of a Put are within the contract. Its errors
// wrap ErrInvalid.
func CheckPut(key string, value []byte, opt PutOptions) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: the value is %d bytes long, at most %d are kept", ErrInvalid, len(value), MaxValue)
	}
	if opt.IfAbsent && opt.IfVersion != 0 {
		return fmt.Errorf("%w: IfAbsent and IfVersion contradict each other", ErrInvalid)
	}
	return CheckTTL(opt.TTL)
}

// CheckKey tells an implementation whether a key is within the contract. Its errors wrap ErrInvalid.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: the key is empty", ErrInvalid)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: the key is %d bytes long, at most %d are allowed", ErrInvalid, len(key), MaxKey)
	}
	return nil
}

// CheckTTL tells an implementation whether a time to live is within the contract. Its errors wrap
// ErrInvalid.
func CheckTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: a time to live above 0 is required", ErrInvalid)
	}
	return nil
}
