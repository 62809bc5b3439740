package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/store"
)

var setFaults = []fault{
	{"KV/", "lists members in descending order", func(m full, h *hooked) {
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			members, err := m.List(ctx, set, after, limit)
			slices.Reverse(members)
			return members, err
		}
	}},
	{"KV/", "lists members from the first", func(m full, h *hooked) {
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			return m.List(ctx, set, "", limit)
		}
	}},
	{"KV/", "lists the member that it starts after", func(m full, h *hooked) {
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			all, err := m.List(ctx, set, "", store.MaxList)
			if slices.Contains(all, after) && err == nil {
				return []string{after}, nil
			}
			return m.List(ctx, set, after, limit)
		}
	}},
	{"KV/", "lists a fixed number of members", func(m full, h *hooked) {
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			return m.List(ctx, set, after, 3)
		}
	}},
	{"KV/", "lists members from a position", func(m full, h *hooked) {
		position := 0
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			all, err := m.List(ctx, set, "", store.MaxList)
			all = all[min(position, len(all)):]
			all = all[:min(limit, len(all))]
			position += len(all)
			return all, err
		}
	}},
	{"KV/", "ignores the maximum of sets", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			opt.Max = 1000
			return m.Add(ctx, set, member, opt)
		}
	}},
	{"KV/", "rejects members of full sets", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if all, err := m.List(ctx, set, "", store.MaxList); err == nil && len(all) == opt.Max {
				return store.ErrFull
			}
			return m.Add(ctx, set, member, opt)
		}
	}},
	{"KV/", "rejects members that it has", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if all, err := m.List(ctx, set, "", store.MaxList); err == nil && slices.Contains(all, member) {
				return store.ErrConflict
			}
			return m.Add(ctx, set, member, opt)
		}
	}},
	{"KV/", "checks the maximum before it adds", func(m full, h *hooked) {
		h.racy = true
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if all, err := m.List(ctx, set, "", store.MaxList); err == nil && len(all) >= opt.Max {
				return store.ErrFull
			}
			letOthersRun()
			return m.Add(ctx, set, member, store.AddOptions{TTL: opt.TTL, Max: 1000})
		}
	}},
	{"KV/", "counts expired members", func(m full, h *hooked) {
		rejected := make(map[string]bool)
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if rejected[set] {
				return store.ErrFull
			}
			err := m.Add(ctx, set, member, opt)
			rejected[set] = errors.Is(err, store.ErrFull)
			return err
		}
	}},
	{"KV/", "makes rejected additions and lists extend lives", func(m full, h *hooked) {
		extend := func(ctx context.Context, set string) {
			all, _ := m.List(ctx, set, "", store.MaxList)
			for _, member := range all {
				_ = m.Add(ctx, set, member, roomy)
			}
		}
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			err := m.Add(ctx, set, member, opt)
			if errors.Is(err, store.ErrFull) {
				extend(ctx, set)
			}
			return err
		}
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			extend(ctx, set)
			return m.List(ctx, set, after, limit)
		}
	}},
	{"KV/", "makes Add shorten lives", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if opt.TTL == life {
				_ = m.Remove(ctx, set, member)
			}
			return m.Add(ctx, set, member, opt)
		}
	}},
	{"KV/", "does not extend the lives of members", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if all, err := m.List(ctx, set, "", store.MaxList); err == nil && slices.Contains(all, member) {
				return nil
			}
			return m.Add(ctx, set, member, opt)
		}
	}},
	{"KV/", "expires all members of a set together", func(m full, h *hooked) {
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			all, err := m.List(ctx, set, "", store.MaxList)
			if len(all) > 0 && len(all) < 3 {
				all = nil
			}
			return all, err
		}
	}},
	{"KV/", "removes nothing from sets", func(m full, h *hooked) {
		h.remove = func(ctx context.Context, set, member string) error { return ctx.Err() }
	}},
	{"KV/", "cannot remove a missing member", func(m full, h *hooked) {
		h.remove = func(ctx context.Context, set, member string) error {
			if all, err := m.List(ctx, set, "", store.MaxList); err != nil || !slices.Contains(all, member) {
				return store.ErrNotFound
			}
			return m.Remove(ctx, set, member)
		}
	}},
	{"KV/", "remembers removed members", func(m full, h *hooked) {
		removed := make(map[string]bool)
		h.remove = func(ctx context.Context, set, member string) error {
			removed[member] = true
			return m.Remove(ctx, set, member)
		}
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if removed[member] {
				return nil
			}
			return m.Add(ctx, set, member, opt)
		}
	}},
}

var fullFaults = []fault{
	{"Full/", "evicts items when it is full", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			version, err := m.Put(ctx, key, value, opt)
			if errors.Is(err, store.ErrFull) {
				_ = m.Delete(ctx, "k0")
			}
			return version, err
		}
	}},
	{"Full/", "rejects every write once it was full", func(m full, h *hooked) {
		wasFull := false
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			if wasFull {
				return 0, store.ErrFull
			}
			version, err := m.Put(ctx, key, value, opt)
			wasFull = errors.Is(err, store.ErrFull)
			return version, err
		}
	}},
	{"Full/", "has no limit for sets", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			return m.Add(ctx, set, strings.TrimRight(member, "x0123456789"), opt)
		}
	}},
}
