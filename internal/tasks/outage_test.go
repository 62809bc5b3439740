package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// fullKV does not accept results in entries of their own.
type fullKV struct{ Values }

func (kv fullKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if strings.Contains(key, "/result/") {
		return 0, errors.New("no memory left")
	}
	return kv.Values.Put(ctx, key, value, opt)
}

// A replica that stops before it has stored the result leaves the task to another one.
func TestTaskWhoseResultCannotBeStoredIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		a.Store.KV = fullKV{f.sealed}
		run := begin(t, a, newTask("1"))
		go run.End(Outcome{Result: json.RawMessage(`"` + strings.Repeat("x", 2*maxInline) + `"`)})
		time.Sleep(10 * time.Second)
		kill(a)
		b.Start()
		time.Sleep(time.Minute)
		task := must.Get(b.Store.Get(t.Context(), ada, "1"))(t)
		must.CheckEqual(t, task.Status, mcp.TaskFailed)
	})
}

// failingKV fails for as long as it is down.
type failingKV struct {
	Values
	down atomic.Bool
}

func (f *failingKV) check() error {
	if f.down.Load() {
		return &rpc.StoreError{Err: errors.New("dial tcp 192.0.2.1:6379: connection refused")}
	}
	return nil
}

func (f *failingKV) Get(ctx context.Context, key string) (store.Item, error) {
	if err := f.check(); err != nil {
		return store.Item{}, err
	}
	return f.Values.Get(ctx, key)
}

func (f *failingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.Values.Put(ctx, key, value, opt)
}

func (f *failingKV) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Values.Add(ctx, set, member, ttl, limit)
}

func (f *failingKV) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.Values.List(ctx, set, after, limit)
}

func TestAnswersAreReadWhenTheStoreIsUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		kv := &failingKV{Values: f.sealed}
		a.Store.KV = kv
		run := begin(t, a, newTask("1"))
		time.Sleep(time.Second)
		answered := make(chan error, 1)
		go func() {
			_, err := ask(run, "name?")
			answered <- err
		}()
		synctest.Wait()
		kv.down.Store(true)
		answer(t, b, "1", `{}`)
		time.Sleep(10 * time.Second)
		kv.down.Store(false)
		must.Check(t, <-answered)
		run.End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

// The leases of all replicas expire while the store is away. Their handlers continue, and their outcomes are stored.
func TestAnOutageOfTheStoreEndsNoTask(t *testing.T) {
	for outage := time.Second; outage < time.Minute; outage += 7 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			kv := &failingKV{Values: f.sealed}
			replica := func() *Runner {
				r := f.replica(func(*Run) { t.Error("the handler runs twice") })
				r.Store.KV, r.Lease.KV = kv, kv
				r.Start()
				return r
			}
			a, b := replica(), replica()
			task := newTask("1")
			task.Timeout = task.TTL
			run := begin(t, a, task)
			time.Sleep(time.Minute + outage/3)
			kv.down.Store(true)
			time.Sleep(outage)
			kv.down.Store(false)
			for range 60 { // clients ask as soon as the store is back
				for _, r := range []*Runner{a, b} {
					if got := get(t, r, "1"); got.Status != mcp.TaskWorking {
						t.Fatalf("after an outage of %v: %s", outage, describe(got))
					}
				}
				time.Sleep(time.Second / 2)
			}
			run.End(Outcome{Result: json.RawMessage(`{"n":1}`)})
			must.CheckEqual(t, describe(get(t, b, "1")), `completed {"n":1}`)
		})
	}
}

// What a replica cannot read does not concern the tasks that it can.
func TestUnreadableEntriesDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var log strings.Builder
		a, b := f.replica(nil), f.replica(nil)
		b.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.Store.Logger = b.Logger
		b.Start()
		bad := map[string]string{"0": "garbage", "1": "{}", "2": ""}
		for i := range 6 {
			beginIdle(t, a, newTask(fmt.Sprint(i)))
		}
		put := func(s store.Store, id, value string) {
			must.Get(s.Put(t.Context(), key(ada, id), []byte(value), store.PutOptions{TTL: time.Hour}))(t)
		}
		for id, value := range bad {
			put(f.memory, id, value)
		}
		put(f.sealed, "3", `{"id":7}`)
		add := func(set, member string) { must.Do(t, f.memory.Add(t.Context(), set, member, time.Hour, 100)) }
		add(tasksSet(a.Lease.ID()), "another program")
		add(replicasSet, strings.Repeat("0", storecheck.MaxKey)) // no key of a lease
		kill(a)
		time.Sleep(takeOverTime)
		page, _, err := b.Store.List(t.Context(), ada, "", 10)
		must.CheckThat(t, err == nil && len(page) == 2 && page[0].Status == mcp.TaskFailed &&
			page[1].Status == mcp.TaskFailed, "%+v %v", page, err)
		time.Sleep(time.Minute)
		n := strings.Count(log.String(), "unreadable=5 without_tool=0")
		must.CheckThat(t, n == 1 && strings.Contains(log.String(), "tasks=4"), "%d lines: %s", n, log.String())
		must.CheckIs(t, must.Err(b.Store.Get(t.Context(), ada, "0")), ErrUnreadable)
	})
}

// countingKV counts the reads of keys.
type countingKV struct {
	Values
	mu    sync.Mutex
	reads map[string]int
}

func (k *countingKV) Get(ctx context.Context, key string) (store.Item, error) {
	k.mu.Lock()
	k.reads[key]++
	k.mu.Unlock()
	return k.Values.Get(ctx, key)
}

// A task that a replica cannot read is read once, however long the task lives. If its replica returns and ends again,
// the others take over the tasks that it has then.
func TestUnreadableTasksAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		kv := &countingKV{Values: f.sealed, reads: make(map[string]int)}
		b.Store.KV = kv
		a.Start()
		beginIdle(t, a, newTask("0"))
		must.Do(t, must.Err(f.memory.Put(t.Context(), key(ada, "0"), []byte("garbage"),
			store.PutOptions{TTL: 24 * time.Hour})))
		f.expire(a, b)
		time.Sleep(takeOverTime) // a renews its lease meanwhile
		beginIdle(t, a, newTask("1"))
		kill(a)
		time.Sleep(takeOverTime)
		got := must.Get(b.Store.Get(t.Context(), ada, "1"))(t)
		must.CheckEqual(t, got.Status, mcp.TaskFailed, got)
		before := kv.reads[key(ada, "0")]
		time.Sleep(2 * time.Hour)
		n := kv.reads[key(ada, "0")]
		must.CheckThat(t, before != 0 && n == before, "%d reads at first, and %d in two hours", before, n-before)
	})
}
