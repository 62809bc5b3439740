package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/topics"
	"github.com/parley-mcp/parley/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a tb that records the first failure.
type recorder struct {
	mu     sync.Mutex
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == "" {
		r.failed = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// try runs a case on a store and returns how it failed. In the bubble, a case takes no real time, even when it waits
// for messages that do not arrive.
func try(t *testing.T, c testCase, open func(store.Store) store.Store) string {
	var r recorder
	synctest.Test(t, func(*testing.T) {
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					r.Errorf("panic: %v", p)
				}
			}()
			c.run(&r, open(store.NewMemory()))
		})
		wg.Wait()
	})
	return r.failed
}

var contract = slices.Concat(kvCases, setCases, logCases, busCases)

func TestCorrectStorePasses(t *testing.T) {
	for _, c := range contract {
		must.CheckEqual(t, try(t, c, func(m store.Store) store.Store { return m }), "", c.name)
	}
}

// In each suite that lists a fault, some case finds it. A fault is a store that overrides some methods of a correct
// one.
func TestCasesFindFaults(t *testing.T) {
	for suite, cases := range map[string][]testCase{"KV": kvCases, "Set": setCases, "Log": logCases, "Bus": busCases} {
		for name, open := range faults[suite] {
			t.Run(suite+" "+name, func(t *testing.T) {
				for _, c := range cases {
					if failed := try(t, c, open); failed != "" {
						t.Logf("case %s fails: %.200s", c.name, failed)
						return
					}
				}
				t.Error("no case fails")
			})
		}
	}
}

var faults = map[string]map[string]func(m store.Store) store.Store{
	"KV": {
		"ignores the case of names": func(m store.Store) store.Store { return altered{m, strings.ToLower, nil, nil} },
		"accepts names that are too long": func(m store.Store) store.Store {
			return altered{m, func(name string) string { return name[:min(len(name), maxKey)] }, nil, nil}
		},
		"rejects long names": func(m store.Store) store.Store {
			return altered{m, func(name string) string {
				if len(name) > 1024 {
					return ""
				}
				return name
			}, nil, nil}
		},
		"ignores that the context has ended": func(m store.Store) store.Store {
			return altered{m, nil, nil, context.WithoutCancel}
		},
		"keeps everything": func(m store.Store) store.Store {
			return altered{m, nil, func(time.Duration) time.Duration { return 1000 * time.Hour }, nil}
		},
		"expires early": func(m store.Store) store.Store {
			return altered{m, nil, func(ttl time.Duration) time.Duration { return ttl / 4 }, nil}
		},
		"has times to live that overflow": func(m store.Store) store.Store {
			return altered{m, nil, func(ttl time.Duration) time.Duration { return (ttl + time.Hour - 1) % (1 << 62) }, nil}
		},
		"counts versions for each item": func(m store.Store) store.Store { return counting{m, make(map[string]uint64)} },
		"writes in two steps":           func(m store.Store) store.Store { return twoSteps{m} },
		"ignores conditions":            func(m store.Store) store.Store { return careless{m} },
		"removes what starts with the key": func(m store.Store) store.Store {
			return deleting{m, func(key string) error { return m.Delete(background, key+"/child") }}
		},
		"does not touch": func(m store.Store) store.Store { return reading{m} },
	},
	"Set": {
		"ignores that the context has ended": func(m store.Store) store.Store {
			return altered{m, nil, nil, context.WithoutCancel}
		},
		"expires early": func(m store.Store) store.Store {
			return altered{m, nil, func(ttl time.Duration) time.Duration { return ttl / 4 }, nil}
		},
		"removes the set of the same name": func(m store.Store) store.Store {
			return deleting{m, func(key string) error { return m.Remove(background, key, "member") }}
		},
		"does not extend lives of members": func(m store.Store) store.Store { return adding{m, false} },
		"shortens lives of members":        func(m store.Store) store.Store { return adding{m, true} },
	},
	"Log": {
		"ignores that the context has ended": func(m store.Store) store.Store {
			return altered{m, nil, nil, context.WithoutCancel}
		},
		"expires early": func(m store.Store) store.Store {
			return altered{m, nil, func(ttl time.Duration) time.Duration { return ttl / 4 }, nil}
		},
		"removes the streams of the same name": func(m store.Store) store.Store {
			return deleting{m, func(key string) error { return m.Drop(background, key) }}
		},
		"ignores MaxEntries": func(m store.Store) store.Store {
			return appending{m, func(o *store.AppendOptions) { o.MaxEntries += 1000 }}
		},
		"ignores MaxBytes": func(m store.Store) store.Store {
			return appending{m, func(o *store.AppendOptions) { o.MaxBytes += 1 << 30 }}
		},
		"returns entries in the wrong order": func(m store.Store) store.Store { return reversing{m} },
	},
	"Bus": {
		"delivers messages twice": func(m store.Store) store.Store {
			return publishing{m, func(message []byte) [][]byte { return [][]byte{message, message} }}
		},
		"trims messages": func(m store.Store) store.Store {
			return publishing{m, func(message []byte) [][]byte { return [][]byte{bytes.TrimSpace(message)} }}
		},
		"retains messages": func(m store.Store) store.Store {
			return localBus{m, &topics.Topics[store.Message]{Lost: store.Message{Lost: true}}}
		},
	},
}

// altered is a store that changes names, times to live and contexts; a nil function changes nothing.
type altered struct {
	store.Store
	rename func(string) string
	ttl    func(time.Duration) time.Duration
	ctx    func(context.Context) context.Context
}

func call[T any](f func(T) T, x T) T {
	if f != nil {
		return f(x)
	}
	return x
}

func (a altered) Get(ctx context.Context, key string) (store.Item, error) {
	return a.Store.Get(ctx, call(a.rename, key))
}

func (a altered) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	opt.TTL = call(a.ttl, opt.TTL)
	return a.Store.Put(call(a.ctx, ctx), call(a.rename, key), value, opt)
}

func (a altered) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	return a.Store.Add(call(a.ctx, ctx), call(a.rename, set), member, call(a.ttl, ttl), limit)
}

func (a altered) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	return a.Store.List(ctx, call(a.rename, set), after, limit)
}

func (a altered) Append(ctx context.Context, k store.StreamKey, seq uint64, e []byte, o store.AppendOptions) error {
	o.TTL = call(a.ttl, o.TTL)
	return a.Store.Append(call(a.ctx, ctx), k, seq, e, o)
}

// counting numbers the versions of each new item from 1.
type counting struct {
	store.Store
	base map[string]uint64
}

func (c counting) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	_, missing := c.Store.Get(ctx, key)
	if opt.IfVersion != 0 {
		opt.IfVersion += c.base[key]
	}
	version, err := c.Store.Put(ctx, key, value, opt)
	if err != nil {
		return 0, err
	}
	if missing != nil {
		c.base[key] = version - 1
	}
	return version - c.base[key], nil
}

func (c counting) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := c.Store.Get(ctx, key)
	if err == nil {
		item.Version -= c.base[key]
	}
	return item, err
}

// twoSteps checks the condition first and writes later.
type twoSteps struct{ store.Store }

func (s twoSteps) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	item, err := s.Get(ctx, key)
	if opt.IfAbsent && err == nil || opt.IfVersion != 0 && opt.IfVersion != item.Version {
		return 0, store.ErrConflict
	}
	time.Sleep(time.Nanosecond) // lets others write in the bubble
	opt.IfAbsent, opt.IfVersion = false, 0
	return s.Store.Put(ctx, key, value, opt)
}

// careless ignores conditions.
type careless struct{ store.Store }

func (s careless) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	opt.IfAbsent, opt.IfVersion = false, 0
	return s.Store.Put(ctx, key, value, opt)
}

// deleting deletes more than the item.
type deleting struct {
	store.Store
	more func(key string) error
}

func (d deleting) Delete(ctx context.Context, key string) error {
	return errors.Join(d.Store.Delete(ctx, key), d.more(key))
}

// reading has a Touch that only reads the item.
type reading struct{ store.Store }

func (r reading) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	return r.Get(ctx, key)
}

// adding changes how long members live.
type adding struct {
	store.Store
	shorten bool
}

func (a adding) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	if all, err := a.List(ctx, set, "", maxList); err == nil && slices.Contains(all, member) {
		if !a.shorten {
			return nil
		}
		_ = a.Remove(ctx, set, member)
	}
	return a.Store.Add(ctx, set, member, ttl, limit)
}

// appending appends with other options.
type appending struct {
	store.Store
	change func(o *store.AppendOptions)
}

func (a appending) Append(ctx context.Context, k store.StreamKey, seq uint64, e []byte, o store.AppendOptions) error {
	a.change(&o)
	return a.Store.Append(ctx, k, seq, e, o)
}

type reversing struct{ store.Store }

func (r reversing) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := r.Store.ReadAfter(ctx, key, seq)
	slices.Reverse(entries)
	return entries, err
}

// publishing publishes other messages.
type publishing struct {
	store.Store
	change func(message []byte) [][]byte
}

func (p publishing) Publish(ctx context.Context, topic string, message []byte) error {
	for _, message := range p.change(message) {
		if err := p.Store.Publish(ctx, topic, message); err != nil {
			return err
		}
	}
	return nil
}

// localBus retains the memory of the messages.
type localBus struct {
	store.Store
	topics *topics.Topics[store.Message]
}

func (b localBus) Publish(_ context.Context, topic string, message []byte) error {
	b.topics.Deliver(topic, store.Message{Data: message})
	return nil
}

func (b localBus) Subscribe(_ context.Context, topic string, queue int) (*store.Subscription, error) {
	s := b.topics.Subscribe(topic, queue, nil)
	return store.NewSubscription(s.C, s.Close), nil
}
