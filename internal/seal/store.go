package seal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/store"
)

// Store returns a Store that encrypts the values and log entries in s. Each is bound to its key, so that it
// cannot be moved to another key. Keys, topics, messages and members of sets are not encrypted.
//
// An entry that no key opens counts as missing: a session that was stored before the server had keys, or
// whose key was removed, has ended. The error wraps store.ErrNotFound and ErrInvalid.
func (k *Keys) Store(s store.Store, logger *slog.Logger) store.Store {
	entries := &entries{seals: k, logger: logger}
	return store.Join(sealedKV{s, entries}, s, sealedLog{s, entries}, s)
}

// entries decrypts entries.
type entries struct {
	seals  *Keys
	logger *slog.Logger
	failed loglimit.Limiter // limits log lines about entries that no key opens

	resealedAt atomic.Int64 // when an entry was last encrypted again, in nanoseconds of Unix time
}

// resealInterval is the minimum time between encrypting two entries again with the newest key.
// Without it, replicas with different first keys that share a session would write it with every
// request.
const resealInterval = 10 * time.Millisecond

// open decrypts an entry. The error wraps store.ErrNotFound and ErrInvalid.
func (s *entries) open(ctx context.Context, purpose string, sealed []byte) (text []byte, newest bool, err error) {
	text, newest, err = s.seals.OpenBytes(purpose, sealed)
	if err != nil {
		s.failed.Log(ctx, s.logger, slog.LevelWarn,
			"stored entry ignored: none of the server's Keys decrypts it; replicas need the same Keys")
		return nil, false, fmt.Errorf("%w: cannot decrypt the entry: %w", store.ErrNotFound, err)
	}
	return text, newest, nil
}

// mayReseal reports whether resealInterval has passed since it last reported true.
func (s *entries) mayReseal() bool {
	now, last := time.Now().UnixNano(), s.resealedAt.Load()
	return (now-last >= int64(resealInterval) || now < last) && s.resealedAt.CompareAndSwap(last, now)
}

// sealedKV is a KV with encrypted values.
type sealedKV struct {
	store.KV // for Delete
	*entries
}

func valuePurpose(key string) string { return "value " + key }

func (s sealedKV) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := s.KV.Get(ctx, key)
	if err != nil {
		return store.Item{}, err
	}
	item.Value, _, err = s.open(ctx, valuePurpose(key), item.Value)
	return item, err
}

func (s sealedKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	return s.KV.Put(ctx, key, s.seals.SealBytes(valuePurpose(key), value), opt)
}

// Touch also encrypts the item with the newest key if an older key encrypted it. The item then has a new
// version, and an item in use no longer needs the older key.
func (s sealedKV) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	item, err := s.KV.Touch(ctx, key, ttl)
	if err != nil {
		return store.Item{}, err
	}
	var newest bool
	if item.Value, newest, err = s.open(ctx, valuePurpose(key), item.Value); err != nil || newest || !s.mayReseal() {
		return item, err
	}
	switch version, err := s.Put(ctx, key, item.Value, store.PutOptions{TTL: ttl, IfVersion: item.Version}); {
	case err == nil:
		item.Version = version
	case errors.Is(err, store.ErrConflict): // another replica wrote it first
	default:
		return store.Item{}, err
	}
	return item, nil
}

// sealedLog is a Log with encrypted entries.
type sealedLog struct {
	store.Log // for Drop
	*entries
}

func entryPurpose(key store.StreamKey, seq uint64) string {
	return "entry " + strconv.FormatUint(seq, 10) + " " + strconv.Itoa(len(key.Group)) + " " + key.Group + key.Stream
}

func (s sealedLog) Append(
	ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions,
) error {
	return s.Log.Append(ctx, key, seq, s.seals.SealBytes(entryPurpose(key, seq), entry), opt)
}

func (s sealedLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := s.Log.ReadAfter(ctx, key, seq)
	for i := range entries {
		if entries[i], _, err = s.open(ctx, entryPurpose(key, seq+uint64(i)+1), entries[i]); err != nil {
			return nil, err
		}
	}
	return entries, err
}
