package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/store"
)

// The record of an item is its version, in 8 bytes, and its value.
const versionLength = 8

// newVersion returns a random version. A random version is never assigned twice, whatever
// Redis forgets at a restart or a fail-over.
func newVersion() uint64 {
	for {
		var b [versionLength]byte
		_, _ = rand.Read(b[:]) // never fails
		if v := binary.BigEndian.Uint64(b[:]); v != 0 {
			return v
		}
	}
}

func encodeVersion(v uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, v))
}

func parseRecord(key string, record []byte) (store.Item, error) {
	if len(record) < versionLength {
		return store.Item{}, fmt.Errorf("%w: %s, key %q", store.ErrInvalidArgument, foreign, key)
	}
	return store.Item{Value: record[versionLength:], Version: binary.BigEndian.Uint64(record)}, nil
}

// Get implements [store.KV].
func (s *redisStore) Get(ctx context.Context, key string) (store.Item, error) {
	return do(ctx, s, func(ctx context.Context) (store.Item, error) {
		name := s.name(itemKind, key)
		record, err := once(ctx, s, redis.NewCmd(ctx, "get", name))
		if errors.Is(err, ErrUnavailable) { // a connection has ended, perhaps
			record, err = once(ctx, s, redis.NewCmd(ctx, "get", name))
		}
		if err != nil {
			return store.Item{}, err
		}
		text, _ := record.(string)
		return parseRecord(name, []byte(text))
	})
}

// Touch implements [store.KV].
func (s *redisStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	if err := storecheck.TTL(ttl); err != nil {
		return store.Item{}, errors.Join(ctx.Err(), err)
	}
	return do(ctx, s, func(ctx context.Context) (store.Item, error) {
		name := s.name(itemKind, key)
		record, err := touchScript.run(ctx, s, []string{name}, milliseconds(ttl))
		if err != nil {
			return store.Item{}, err
		}
		text, _ := record.(string)
		return parseRecord(name, []byte(text))
	})
}

// Put implements [store.KV].
func (s *redisStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := storecheck.Put(key, value, opt.TTL, opt.IfAbsent, opt.IfVersion); err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	version := newVersion()
	// The record is a copy: the operation may continue after ctx has ended.
	record := append(binary.BigEndian.AppendUint64(make([]byte, 0, versionLength+len(value)), version), value...)
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		name := s.name(itemKind, key)
		err := s.put(ctx, name, record, opt)
		if full(err) {
			err = s.putInFullMemory(ctx, name, record, opt)
		}
		return nil, err
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

func (s *redisStore) put(ctx context.Context, name string, record []byte, opt store.PutOptions) error {
	ttl := milliseconds(opt.TTL)
	switch {
	case opt.IfVersion != 0:
		return outcome(putScript.run(ctx, s, []string{name}, record, ttl, encodeVersion(opt.IfVersion)))
	case opt.IfAbsent:
		_, err := once(ctx, s, redis.NewCmd(ctx, "set", name, record, "px", ttl, "nx"))
		if errors.Is(err, store.ErrNotFound) { // nil is the answer if the key exists
			return store.ErrConflict
		}
		return err
	default:
		_, err := once(ctx, s, redis.NewCmd(ctx, "set", name, record, "px", ttl))
		return err
	}
}

// putInFullMemory writes an item when maxmemory is reached. It detects conflicts, and
// replaces items with shorter ones, so that a task can still end.
func (s *redisStore) putInFullMemory(ctx context.Context, name string, record []byte, opt store.PutOptions) error {
	condition := "any"
	if opt.IfAbsent {
		condition = "absent"
	} else if opt.IfVersion != 0 {
		condition = encodeVersion(opt.IfVersion)
	}
	return outcome(replaceScript.run(ctx, s, []string{name}, record, milliseconds(opt.TTL), condition))
}

// errMaxMemory is the store.ErrFull that is returned if a script finds that maxmemory is
// reached.
var errMaxMemory = fmt.Errorf("%w: maxmemory of Redis is reached: raise it, or lower the limits and times to live of "+
	"the server", store.ErrFull)

// outcome translates the result of a script that writes.
func outcome(result any, err error) error {
	switch {
	case err != nil:
		return err
	case result == "ok":
		return nil
	case result == "conflict":
		return store.ErrConflict
	case result == "full":
		return errMaxMemory
	default:
		return fmt.Errorf("redisstore: cannot use result %q of a script", result)
	}
}

// Delete implements [store.KV].
func (s *redisStore) Delete(ctx context.Context, key string) error {
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		return once(ctx, s, redis.NewCmd(ctx, "unlink", s.name(itemKind, key)))
	})
	return err
}
