package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/topics"
	"github.com/parley-mcp/parley/store"
)

// fault is a way in which a store is broken. The name completes "the store …".
//
// A fault that writes to memory that callers read is tried with one case only: in a case
// with several goroutines the race detector would report it.
type fault struct {
	cases string // the start of the names of the cases that are tried
	name  string
	fault func(m full, h *hooked)
}

var faults = slices.Concat(lengthFaults, kvFaults, setFaults, fullFaults, logFaults, busFaults, generalFaults)

// renamed makes the store use other names for keys, sets, members, groups, streams and topics.
func renamed(name func(string) string) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.get = func(ctx context.Context, key string) (store.Item, error) { return m.Get(ctx, name(key)) }
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			return m.Put(ctx, name(key), value, opt)
		}
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
			return m.Touch(ctx, name(key), ttl)
		}
		h.delete = func(ctx context.Context, key string) error { return m.Delete(ctx, name(key)) }
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			return m.Add(ctx, name(set), name(member), ttl, limit)
		}
		h.remove = func(ctx context.Context, set, member string) error {
			return m.Remove(ctx, name(set), name(member))
		}
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			return m.List(ctx, name(set), after, limit)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
			opt store.AppendOptions) error {
			return m.Append(ctx, stream(name(key.Group), name(key.Stream)), seq, entry, opt)
		}
		h.readAfter = func(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
			return m.ReadAfter(ctx, stream(name(key.Group), name(key.Stream)), seq)
		}
		h.drop = func(ctx context.Context, group string) error { return m.Drop(ctx, name(group)) }
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			return m.Publish(ctx, name(topic), message)
		}
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			return m.Subscribe(ctx, name(topic), queue)
		}
	}
}

// withContext makes the store use another context.
func withContext(other func(context.Context) context.Context) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			return m.Put(other(ctx), key, value, opt)
		}
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			return m.Add(other(ctx), set, member, ttl, limit)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
			opt store.AppendOptions) error {
			return m.Append(other(ctx), key, seq, entry, opt)
		}
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			return m.Publish(other(ctx), topic, message)
		}
	}
}

// withTTL makes the store use another time to live.
func withTTL(other func(time.Duration) time.Duration) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			opt.TTL = other(opt.TTL)
			return m.Put(ctx, key, value, opt)
		}
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
			return m.Touch(ctx, key, other(ttl))
		}
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			return m.Add(ctx, set, member, other(ttl), limit)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
			opt store.AppendOptions) error {
			opt.TTL = other(opt.TTL)
			return m.Append(ctx, key, seq, entry, opt)
		}
	}
}

// Cases with long names and values take long, so their faults come first.
var lengthFaults = []fault{
	{"", "rejects long names and values", func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			if len(key) > 1024 || len(value) > 1<<20 {
				return 0, store.ErrInvalidArgument
			}
			return m.Put(ctx, key, value, opt)
		}
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			if len(set) > 1024 || len(member) > 1024 {
				return store.ErrInvalidArgument
			}
			return m.Add(ctx, set, member, ttl, limit)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
			opt store.AppendOptions) error {
			if len(entry) > 1<<20 {
				return store.ErrInvalidArgument
			}
			return m.Append(ctx, key, seq, entry, opt)
		}
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			if len(message) > 1024 {
				return store.ErrInvalidArgument
			}
			return m.Publish(ctx, topic, message)
		}
	}},
}

var generalFaults = []fault{
	{"", "ignores the case of names", renamed(strings.ToLower)},
	{"", "uses one name for everything", renamed(func(name string) string { return "x" })},
	{"", "accepts names that are empty or too long", renamed(func(name string) string {
		return "x" + name[:min(len(name), 100)]
	})},
	{"", "ignores that the context has ended", withContext(context.WithoutCancel)},
	{"", "keeps everything for ever", withTTL(func(ttl time.Duration) time.Duration { return 1000 * time.Hour })},
	{"", "expires early", withTTL(func(ttl time.Duration) time.Duration { return ttl / 4 })},
	{"", "has times to live that overflow", withTTL(func(ttl time.Duration) time.Duration {
		return (ttl + time.Hour - 1) % (1 << 62)
	})},
	{"", "rejects short times to live",
		withTTL(func(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) })},
}

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
	{"KV/", "makes Touch do nothing", func(m full, h *hooked) {
		h.touch = func(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
			return store.Item{}, nil
		}
	}},
}

var setFaults = []fault{
	{"KV/", "makes Add shorten lives", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			if ttl == life {
				_ = m.Remove(ctx, set, member)
			}
			return m.Add(ctx, set, member, ttl, limit)
		}
	}},
	{"KV/", "does not extend the lives of members", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			if all, err := m.List(ctx, set, "", maxList); err == nil && slices.Contains(all, member) {
				return nil
			}
			return m.Add(ctx, set, member, ttl, limit)
		}
	}},
	{"KV/", "removes nothing from sets", func(m full, h *hooked) {
		h.remove = func(ctx context.Context, set, member string) error { return ctx.Err() }
	}},
}

var fullFaults = []fault{
	{"Full/", "has no limit for sets", func(m full, h *hooked) {
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			return m.Add(ctx, set, strings.TrimRight(member, "x0123456789"), ttl, limit)
		}
	}},
}

// withOptions makes a Log use other options of Append.
func withOptions(change func(opt *store.AppendOptions)) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
			opt store.AppendOptions) error {
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
	{"Log/", "returns entries in the wrong order", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		slices.Reverse(entries)
		return entries, err
	})},
	{"Log/", "ignores MaxEntries", withOptions(func(opt *store.AppendOptions) { opt.MaxEntries = 1000 })},
	{"Log/", "ignores MaxBytes", withOptions(func(opt *store.AppendOptions) { opt.MaxBytes = 1 << 30 })},
	{"Log/", "drops nothing", func(m full, h *hooked) {
		h.drop = func(ctx context.Context, group string) error { return ctx.Err() }
	}},
	{"Log/", "returns at most 500 entries", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		return entries[:min(len(entries), 500)], err
	})},
	{"Log/", "loses the last entry", withEntries(func(entries [][]byte, err error) ([][]byte, error) {
		return entries[:max(0, len(entries)-1)], err
	})},
}

// withMessage makes a Bus publish other messages.
func withMessage(change func(message []byte) [][]byte) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			for _, message := range change(message) {
				if err := m.Publish(ctx, topic, message); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// local has the subscriptions of a Bus.
type local = topics.Topics[store.Message]

// ownBus makes a Bus of other subscribers. deliver is called for each message.
func ownBus(
	subscribe func(all *local, topic string, queue int) *topics.Subscription[store.Message],
	deliver func(all *local, topic string, message []byte),
) func(m full, h *hooked) {
	return func(m full, h *hooked) {
		all := &local{Lost: store.Message{Lost: true}}
		h.publish = func(ctx context.Context, topic string, message []byte) error {
			deliver(all, topic, message)
			return nil
		}
		h.subscribe = func(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
			s := subscribe(all, topic, queue)
			return &store.Subscription{C: s.C, Close: s.Close}, nil
		}
	}
}

func ownSubscribe(all *local, topic string, queue int) *topics.Subscription[store.Message] {
	return all.Subscribe(topic, queue, nil)
}

var busFaults = []fault{
	{"Bus/", "delivers nothing", withMessage(func([]byte) [][]byte { return nil })},
	{"Bus/", "delivers messages twice", withMessage(func(message []byte) [][]byte {
		return [][]byte{message, message}
	})},
	{"Bus/", "trims messages",
		withMessage(func(message []byte) [][]byte { return [][]byte{bytes.TrimSpace(message)} })},
	{"Bus/", "fails without subscribers", func(m full, h *hooked) {
		h.publish = func(ctx context.Context, topic string, message []byte) error { return store.ErrNotFound }
	}},
	{"Bus/", "retains messages", ownBus(ownSubscribe, func(all *local, topic string, message []byte) {
		all.Deliver(topic, store.Message{Data: message})
	})},
	{"Bus/", "reports loss with every message", ownBus(ownSubscribe, func(all *local, topic string, message []byte) {
		all.Deliver(topic, store.Message{Data: bytes.Clone(message)})
		all.ReportLoss(topic)
	})},
	{"Bus/", "closes all subscriptions of a topic together", ownBus(
		func(all *local, topic string, queue int) *topics.Subscription[store.Message] {
			return all.Subscribe(topic, queue, all.Close)
		}, func(all *local, topic string, message []byte) {
			all.Deliver(topic, store.Message{Data: bytes.Clone(message)})
		})},
}
