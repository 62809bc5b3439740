package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/store"
)

// Append implements [store.Log]. When the memory of Redis is full, it purges
// nothing.
func (s *redisStore) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	if err := storecheck.Append(
		key.Group, key.Stream, seq, entry, opt.TTL, opt.MaxEntries, opt.MaxBytes,
	); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	text := string(entry) // a copy: the operation may continue after ctx has ended
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		last, err := appendScript.run(ctx, s, []string{s.name(groupKind, key.Group)},
			key.Stream, seq, text, milliseconds(opt.TTL), opt.MaxEntries, opt.MaxBytes, storecheck.LogOverhead)
		if err == nil && last != "" {
			err = fmt.Errorf("%w: entry %d cannot follow entry %v", store.ErrConflict, seq, last)
		}
		return nil, err
	})
	return err
}

// ReadAfter implements [store.Log].
func (s *redisStore) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	if seq > storecheck.MaxSeq { // larger than the scripts can compute with
		return nil, errors.Join(ctx.Err(), store.ErrNotFound)
	}
	return do(ctx, s, func(ctx context.Context) ([][]byte, error) {
		result, err := readAfterScript.run(ctx, s, []string{s.name(groupKind, key.Group)}, key.Stream, seq)
		if err != nil {
			return nil, err
		}
		list, ok := result.([]any)
		if !ok {
			return nil, fmt.Errorf("%w: the oldest remaining entry is %v", store.ErrPurged, result)
		}
		entries := make([][]byte, len(list))
		for i := range list {
			record, _ := list[i].(string)
			_, entry, ok := strings.Cut(record, " ") // the entry follows its position
			if !ok {
				return nil, fmt.Errorf("redisstore: entry %s is missing in Redis",
					strconv.FormatUint(seq+1+uint64(i), 10))
			}
			entries[i] = []byte(entry)
		}
		return entries, nil
	})
}

// Drop implements [store.Log].
func (s *redisStore) Drop(ctx context.Context, group string) error {
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		return once(ctx, s, redis.NewCmd(ctx, "unlink", s.name(groupKind, group)))
	})
	return err
}
