package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/store"
)

var kvFaults = []fault{
	{"KV/", "deletes items that are read", func(m full, h *hooked) {
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			got, err := m.Get(ctx, key)
			_ = m.Delete(ctx, key)
			return got, err
		}
	}},
	{"KV/", "finds items that do not exist", func(m full, h *hooked) {
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			got, err := m.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				return store.Item{Value: []byte{}}, nil
			}
			return got, err
		}
	}},
	{"KV/", "does not find empty values", func(m full, h *hooked) {
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			got, err := m.Get(ctx, key)
			if err == nil && len(got.Value) == 0 {
				return store.Item{}, store.ErrNotFound
			}
			return got, err
		}
	}},
	{"KV/", "retains the value of Put", func(m full, h *hooked) {
		var retained sync.Map
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			retained.Store(key, value)
			return m.Put(ctx, key, value, opt)
		}
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			got, err := m.Get(ctx, key)
			if value, ok := retained.Load(key); ok && err == nil {
				got.Value = value.([]byte)
			}
			return got, err
		}
	}},
	{"KV/ReturnedValueNeverChanges", "reuses the memory of values", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			if got, err := m.Get(ctx, key); err == nil {
				copy(got.Value, value)
			}
			return m.Put(ctx, key, value, opt)
		}
	}},
	{"KV/", "trims zero bytes", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			return m.Put(ctx, key, bytes.TrimLeft(value, "\x00"), opt)
		}
	}},
	{"KV/", "does not replace items", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			if got, err := m.Get(ctx, key); err == nil && !opt.IfAbsent && opt.IfVersion == 0 {
				return got.Version, nil
			}
			return m.Put(ctx, key, value, opt)
		}
	}},
	{"KV/", "counts versions from 1 for each new item", func(m full, h *hooked) {
		base := make(map[string]uint64)
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			_, err := m.Get(ctx, key)
			if opt.IfVersion != 0 {
				opt.IfVersion += base[key]
			}
			version, putErr := m.Put(ctx, key, value, opt)
			if putErr == nil && err != nil {
				base[key] = version - 1
			}
			if putErr == nil {
				version -= base[key]
			}
			return version, putErr
		}
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			got, err := m.Get(ctx, key)
			if err == nil {
				got.Version -= base[key]
			}
			return got, err
		}
	}},
	{"KV/", "ignores IfAbsent", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			opt.IfAbsent = false
			return m.Put(ctx, key, value, opt)
		}
	}},
	{"KV/", "ignores IfVersion", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			opt.IfVersion = 0
			return m.Put(ctx, key, value, opt)
		}
	}},
	{"KV/", "accepts any version that any key has had", func(m full, h *hooked) {
		var last atomic.Uint64
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			if got, err := m.Get(ctx, key); err == nil && opt.IfVersion != 0 && opt.IfVersion <= last.Load() {
				opt.IfVersion = got.Version
			}
			version, err := m.Put(ctx, key, value, opt)
			if err == nil {
				last.Store(version)
			}
			return version, err
		}
	}},
	{"KV/", "checks a condition before it writes", func(m full, h *hooked) {
		h.racy = true
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			got, err := m.Get(ctx, key)
			if opt.IfAbsent && err == nil || opt.IfVersion != 0 && got.Version != opt.IfVersion {
				return 0, store.ErrConflict
			}
			letOthersRun()
			return m.Put(ctx, key, value, store.PutOptions{TTL: opt.TTL})
		}
	}},
	{"KV/", "reads parts of a value one after another", func(m full, h *hooked) {
		h.racy = true
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			letOthersRun() // so that writers do not end before readers continue
			return m.Put(ctx, key, value, opt)
		}
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			first, err := m.Get(ctx, key)
			letOthersRun()
			if second, err := m.Get(ctx, key); err == nil && len(second.Value) == len(first.Value) {
				half := len(first.Value) / 2
				first.Value = slices.Concat(first.Value[:half], second.Value[half:])
			}
			return first, err
		}
	}},
	{"KV/", "deletes the keys that start with the key", func(m full, h *hooked) {
		h.delete = func(ctx context.Context, key string) error {
			return errors.Join(m.Delete(ctx, key), m.Delete(ctx, key+"/child"))
		}
	}},
	{"KV/", "deletes the set of the same name", func(m full, h *hooked) {
		h.delete = func(ctx context.Context, key string) error {
			return errors.Join(m.Delete(ctx, key), m.Remove(ctx, key, "member"))
		}
	}},
	{"", "deletes the streams of the same name", func(m full, h *hooked) {
		h.delete = func(ctx context.Context, key string) error {
			return errors.Join(m.Delete(ctx, key), m.Drop(ctx, key))
		}
	}},
	{"KV/", "cannot delete a missing item", func(m full, h *hooked) {
		h.delete = func(ctx context.Context, key string) error {
			if _, err := m.Get(ctx, key); err != nil {
				return err
			}
			return m.Delete(ctx, key)
		}
	}},
	{"KV/", "makes Touch write the item", func(m full, h *hooked) {
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
			got, err := m.Get(ctx, key)
			if err != nil && !errors.Is(err, store.ErrNotFound) || ttl <= 0 {
				return m.Touch(ctx, key, ttl)
			}
			got.Version, err = m.Put(ctx, key, got.Value, store.PutOptions{TTL: ttl})
			return got, err
		}
	}},
	{"KV/", "makes Touch shorten lives", func(m full, h *hooked) {
		until := make(map[string]time.Duration)
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
			until[key] = ttl
			return m.Touch(ctx, key, ttl)
		}
		h.get = func(ctx context.Context, key string) (store.Item, error) {
			if ttl, ok := until[key]; ok && ttl == life {
				return store.Item{}, store.ErrNotFound
			}
			return m.Get(ctx, key)
		}
	}},
	{"KV/", "makes Touch do nothing", func(m full, h *hooked) {
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) { return store.Item{}, nil }
	}},
	{"KV/", "makes reads and conflicts extend lives", func(m full, h *hooked) {
		h.get = func(ctx context.Context, key string) (store.Item, error) { return m.Touch(ctx, key, forever) }
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			version, err := m.Put(ctx, key, value, opt)
			if errors.Is(err, store.ErrConflict) {
				_, _ = m.Touch(ctx, key, forever)
			}
			return version, err
		}
	}},
}
