package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/store"
)

// withOptions makes a Log use other options of Append.
func withOptions(change func(opt *store.AppendOptions)) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			change(&opt)
			return m.Append(ctx, key, seq, entry, opt)
		}
	}
}

// withEntries makes a Log change the results of ReadAfter.
func withEntries(change func(entries [][]byte, err error) ([][]byte, error)) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
			return change(m.ReadAfter(ctx, key, seq))
		}
	}
}

var logFaults = []fault{
	{"Log/", "returns no entries of unknown streams", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		return entries, err
	})},
	{"Log/", "returns entries in the wrong order", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		slices.Reverse(entries)
		return entries, err
	})},
	{"Log/", "does not report purged entries", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		if errors.Is(err, store.ErrPurged) {
			return [][]byte{}, nil
		}
		return entries, err
	})},
	{"Log/", "shares the slice that it returns", func(m full, h *hooked) {
		var shared [][]byte
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) (_ [][]byte, err error) {
			if shared == nil {
				shared, err = m.ReadAfter(ctx, key, seq)
			}
			return shared, err
		}
	}},
	{"Log/ReturnedEntriesNeverChange", "changes entries that it has returned", func(m full, h *hooked) {
		var returned [][]byte
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) (_ [][]byte, err error) {
			returned, err = m.ReadAfter(ctx, key, seq)
			return returned, err
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			if len(returned) > 0 {
				copy(returned[0], entry)
			}
			return m.Append(ctx, key, seq, entry, opt)
		}
	}},
	{"Log/", "retains entries", func(m full, h *hooked) {
		var retained []byte
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			retained = entry
			return m.Append(ctx, key, seq, entry, opt)
		}
		h.readAfter = func(context.Context, store.StreamKey, uint64) ([][]byte, error) { return [][]byte{retained}, nil }
	}},
	{"Log/", "truncates entries", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			return m.Append(ctx, key, seq, entry[:min(len(entry), 1000)], opt)
		}
	}},
	{"Log/", "accepts any number", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			err := m.Append(ctx, key, seq, entry, opt)
			if errors.Is(err, store.ErrConflict) {
				return nil
			}
			return err
		}
	}},
	{"Log/", "requires streams to start at 1", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			if _, err := m.ReadAfter(ctx, key, 0); errors.Is(err, store.ErrNotFound) && seq != 1 {
				return store.ErrConflict
			}
			return m.Append(ctx, key, seq, entry, opt)
		}
	}},
	{"Log/", "computes numbers as 32 bits", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			return m.Append(ctx, key, seq&(1<<32-1)|1, entry, opt)
		}
	}},
	{"Log/", "purges at conflicts", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			err := m.Append(ctx, key, seq, entry, opt)
			if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull) {
				_ = m.Drop(ctx, key.Group)
			}
			return err
		}
	}},
	{"Log/", "extends lives at conflicts and reads", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			err := m.Append(ctx, key, seq, entry, opt)
			if errors.Is(err, store.ErrConflict) {
				_ = m.Append(ctx, stream(key.Group, "other"), 1, nil, generous)
			}
			return err
		}
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
			_ = m.Append(ctx, stream(key.Group, "other"), 1, nil, generous)
			return m.ReadAfter(ctx, key, seq)
		}
	}},
	{"Log/", "makes Append shorten lives", func(m full, h *hooked) {
		short := false
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			short = opt.TTL == life
			return m.Append(ctx, key, seq, entry, opt)
		}
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
			if short {
				return nil, store.ErrNotFound
			}
			return m.ReadAfter(ctx, key, seq)
		}
	}},
	{"Log/", "ignores MaxEntries", withOptions(func(opt *store.AppendOptions) { opt.MaxEntries = 1000 })},
	{"Log/", "ignores MaxBytes", withOptions(func(opt *store.AppendOptions) { opt.MaxBytes = 1 << 30 })},
	{"Log/", "applies MaxEntries to the group", func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			if opt.MaxEntries < generous.MaxEntries {
				opt.MaxBytes = int64(opt.MaxEntries) * (store.LogOverhead + int64(len(entry)))
			}
			return m.Append(ctx, key, seq, entry, opt)
		}
	}},
	{"Log/", "does not free the bytes of purged entries", func(m full, h *hooked) {
		used := make(map[string]int64)
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			used[key.Group] += store.LogOverhead
			if opt.MaxEntries == 1 && used[key.Group] > opt.MaxBytes {
				_ = m.Drop(ctx, key.Group)
			}
			return m.Append(ctx, key, seq, entry, opt)
		}
	}},
	{"Log/", "drops nothing", func(m full, h *hooked) {
		h.drop = func(ctx context.Context, group string) error { return ctx.Err() }
	}},
	{"Log/", "drops one stream of a group", func(m full, h *hooked) {
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
			if key.Stream == "199" {
				return nil, store.ErrNotFound
			}
			return m.ReadAfter(ctx, key, seq)
		}
	}},
	{"Log/", "returns at most 500 entries", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		return entries[:min(len(entries), 500)], err
	})},
	{"Log/", "checks the number before it appends", func(m full, h *hooked) {
		h.racy = true
		var numbers sync.Map
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
			last, ok := numbers.Load(key)
			if ok && last.(uint64)+1 != seq {
				return store.ErrConflict
			}
			letOthersRun()
			numbers.Store(key, seq)
			err := m.Append(ctx, key, seq, entry, opt)
			if errors.Is(err, store.ErrConflict) {
				return nil
			}
			return err
		}
	}},
	{"Log/", "loses the last entry", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		return entries[:max(0, len(entries)-1)], err
	})},
}
