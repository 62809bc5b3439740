package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/store"
)

func (s *redisStore) setNames(set string) []string {
	return []string{s.name(membersKind, set), s.name(expiryKind, set)}
}

// Add implements [store.Set].
func (s *redisStore) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	if err := storecheck.Add(set, member, ttl, limit); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		names, ms := s.setNames(set), milliseconds(ttl)
		result, err := addScript.run(ctx, s, names, member, ms, limit)
		if full(err) {
			return nil, outcome(addFullScript.run(ctx, s, names, member, ms, limit, "full"))
		}
		if err == nil && result == "full" {
			return nil, fmt.Errorf("%w: the set has %d members: %w", store.ErrFull, limit, store.ErrConflict)
		}
		return nil, outcome(result, err)
	})
	return err
}

// Remove implements [store.Set].
func (s *redisStore) Remove(ctx context.Context, set, member string) error {
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		return nil, outcome(removeScript.run(ctx, s, s.setNames(set), member))
	})
	return err
}

// List implements [store.Set].
func (s *redisStore) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	if err := storecheck.List(limit); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return do(ctx, s, func(ctx context.Context) ([]string, error) {
		result, err := listScript.run(ctx, s, s.setNames(set), after, limit)
		if err != nil {
			return nil, err
		}
		list, _ := result.([]any)
		if len(list) == 0 {
			return nil, nil
		}
		members := make([]string, len(list))
		for i := range list {
			members[i], _ = list[i].(string)
		}
		return members, nil
	})
}
