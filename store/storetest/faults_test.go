package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

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

// renamed makes the store use other names for keys, sets, members, groups, streams and
// topics.
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
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			return m.Add(ctx, name(set), name(member), opt)
		}
		h.remove = func(ctx context.Context, set, member string) error {
			return m.Remove(ctx, name(set), name(member))
		}
		h.list = func(ctx context.Context, set, after string, limit int) ([]string, error) {
			return m.List(ctx, name(set), after, limit)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
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
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			return m.Add(other(ctx), set, member, opt)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
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
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			opt.TTL = other(opt.TTL)
			return m.Add(ctx, set, member, opt)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
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
		h.add = func(ctx context.Context, set, member string, opt store.AddOptions) error {
			if len(set) > 1024 || len(member) > 1024 {
				return store.ErrInvalidArgument
			}
			return m.Add(ctx, set, member, opt)
		}
		h.append = func(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
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
	{"", "accepts names that are empty or too long", renamed(func(name string) string { return "x" + name[:min(len(name), 100)] })},
	{"", "ignores that the context has ended", withContext(context.WithoutCancel)},
	{"", "keeps everything for ever", withTTL(func(ttl time.Duration) time.Duration { return 1000 * time.Hour })},
	{"", "expires early", withTTL(func(ttl time.Duration) time.Duration { return ttl / 4 })},
	{"", "has times to live that overflow", withTTL(func(ttl time.Duration) time.Duration { return (ttl + time.Hour - 1) % (1 << 62) })},
	{"", "rejects short times to live", withTTL(func(ttl time.Duration) time.Duration { return ttl.Truncate(time.Millisecond) })},
}
