package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// faultyBus is a Bus whose faults a test can turn on.
type faultyBus struct {
	store.Bus
	refuses atomic.Bool // Publish fails
	drops   atomic.Bool // Publish succeeds, and nobody receives the message
	ended   atomic.Bool // subscriptions end at once

	mu            sync.Mutex
	subscriptions []*store.Subscription
	subscribed    int
}

func (b *faultyBus) Publish(ctx context.Context, topic string, message []byte) error {
	switch {
	case b.refuses.Load():
		return errors.New("connection reset by peer")
	case b.drops.Load():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return b.Bus.Publish(ctx, topic, message)
}

func (b *faultyBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	s, err := b.Bus.Subscribe(ctx, topic, queue)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.subscriptions = append(b.subscriptions, s)
	b.subscribed++
	b.mu.Unlock()
	if b.ended.Load() {
		s.Close()
	}
	return s, nil
}

func (b *faultyBus) end() {
	b.ended.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subscriptions {
		s.Close()
	}
}

// leavingKV ends a context after each write, as a client that leaves. If hides is set, the writer receives the end of
// the context as the error.
type leavingKV struct {
	Values
	leave func()
	hides bool
}

func (kv *leavingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	version, err := kv.Values.Put(ctx, key, value, opt)
	if kv.leave != nil {
		kv.leave()
		if kv.hides {
			return 0, context.Canceled
		}
	}
	return version, err
}

// Everyone who waits for a change hears of it soon, whatever becomes of its announcement.
func TestAStoredChangeIsHeard(t *testing.T) {
	faults := map[string]struct {
		begin func(*faultyBus, *leavingKV)
		limit time.Duration
	}{
		"none":                               {func(*faultyBus, *leavingKV) {}, 0},
		"the announcement fails":             {func(b *faultyBus, _ *leavingKV) { b.refuses.Store(true) }, rereadInterval},
		"the announcement is lost":           {func(b *faultyBus, _ *leavingKV) { b.drops.Store(true) }, rereadInterval},
		"the Bus ends":                       {func(b *faultyBus, _ *leavingKV) { b.end() }, busRetry + rereadInterval},
		"the client leaves":                  {func(_ *faultyBus, kv *leavingKV) { kv.hides = false }, 0},
		"the client leaves before the reply": {func(_ *faultyBus, kv *leavingKV) { kv.hides = true }, 0},
	}
	// A waiter calls heard when it hears of the change.
	waiters := map[string]func(t *testing.T, run *Run, heard func()){
		"a handler that asks": func(_ *testing.T, run *Run, heard func()) {
			_, _ = ask(run, "name?")
			heard()
		},
		"a handler that works": func(_ *testing.T, run *Run, heard func()) {
			<-run.Call.Context().Done()
			heard()
		},
		"a request": func(t *testing.T, run *Run, heard func()) {
			changes := must.Get(run.runner.Store.Watch(t.Context(), ada, run.ID()))(t)
			defer changes.Close()
			for {
				if now := must.Get(run.runner.Store.Get(t.Context(), ada, run.ID()))(t); now.Status.Terminal() {
					break
				}
				must.Get(changes.Wait(t.Context(), time.Hour))(t)
			}
			heard()
		},
	}
	for fault, f := range faults {
		for waiter, wait := range waiters {
			t.Run(fault+"/"+waiter, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fleet := newFleet(t)
					a, b := fleet.replica(nil), fleet.replica(nil)
					bus, kv := &faultyBus{Bus: fleet.sealed}, &leavingKV{Values: fleet.sealed}
					a.Store.Bus, b.Store.Bus, b.Store.KV = bus, bus, kv
					task := newTask("1")
					task.Timeout = task.TTL
					run := begin(t, a, task)
					heard := make(chan struct{})
					go wait(t, run, func() { close(heard) })
					time.Sleep(time.Second)
					f.begin(bus, kv)
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					if strings.HasPrefix(fault, "the client leaves") {
						kv.leave = leave
					}
					_, _ = b.Store.Update(ctx, ada, "1", (*Task).Cancel)
					kv.leave = nil
					begun := time.Now()
					select {
					case <-heard:
					case <-time.After(5 * time.Minute):
						t.Fatal("not heard")
					}
					took := time.Since(begun)
					must.CheckThat(t, took <= f.limit, "heard after %v, want at most %v", took, f.limit)
					run.End(Outcome{Result: json.RawMessage(`{}`)})
				})
			})
		}
	}
}

// A Bus that has ended costs a subscription and a reading now and then, and the time-out of the task still holds.
func TestABusThatHasEndedIsNotAskedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.replica(nil)
		bus, kv := &faultyBus{Bus: f.sealed}, &countingKV{Values: f.sealed, reads: make(map[string]int)}
		a.Store.Bus, a.Store.KV = bus, kv
		run := begin(t, a, newTask("1")) // for a minute
		time.Sleep(time.Second)
		bus.end()
		<-run.Call.Context().Done()
		cause := context.Cause(run.Call.Context())
		must.CheckThat(t, cause == ErrTimeout, "%v", cause)
		run.End(Outcome{})
		must.CheckEqual(t, get(t, a, "1").Status, mcp.TaskFailed)
		if most := int(time.Minute/busRetry) + 2; bus.subscribed > most || kv.reads[key(ada, "1")] > 2*most {
			t.Errorf("%d subscriptions, %d reads in a minute", bus.subscribed, kv.reads[key(ada, "1")])
		}
	})
}

// rejectingKV does not store long results.
type rejectingKV struct {
	Values
	err   error
	tries int
}

func (kv *rejectingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if strings.Contains(key, "/result/") {
		kv.tries++
		return 0, kv.err
	}
	return kv.Values.Put(ctx, key, value, opt)
}

// A result that cannot be stored holds the place of its run only while the task can still end.
func TestARunWhoseResultCannotBeStoredEndsWithItsTask(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		later  func(*Runner, *failingKV) // after ten seconds
		within time.Duration
		status mcp.TaskStatus // empty if the task is gone
	}{
		"the store is full": {store.ErrFull, nil, 2 * time.Minute, ""},
		"the client cancels the task": {store.ErrFull, func(r *Runner, _ *failingKV) {
			_, _ = r.Store.Update(context.Background(), ada, "1", (*Task).Cancel)
		}, 10*time.Second + maxPause, mcp.TaskCancelled},
		"the store does not come back": {store.ErrFull, func(_ *Runner, kv *failingKV) { kv.down.Store(true) },
			2 * time.Minute, ""},
		"the store rejects it": {store.ErrInvalidArgument, nil, 0, mcp.TaskFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFleet(t).replica(nil)
				r.Max = 1
				down := &failingKV{Values: r.Store.KV}
				kv := &rejectingKV{Values: down, err: c.err}
				r.Store.KV = kv
				task := newTask("1")
				task.TTL = 2 * time.Minute.Milliseconds()
				run, begun := begin(t, r, task), time.Now()
				if c.later != nil {
					time.AfterFunc(10*time.Second, func() { c.later(r, down) })
				}
				run.End(Outcome{Result: json.RawMessage(`"` + strings.Repeat("x", 2*maxInline) + `"`)})
				if took := time.Since(begun); took > c.within {
					t.Errorf("ended after %v and %d attempts, want at most %v", took, kv.tries, c.within)
				}
				down.down.Store(false)
				now, err := r.Store.Get(t.Context(), ada, "1")
				if c.status == "" {
					must.CheckIs(t, err, ErrNotFound)
				} else if err != nil || now.Status != c.status {
					t.Errorf("%v %v", now, err)
				}
				begin(t, r, newTask("2")).End(Outcome{Result: json.RawMessage(`{}`)})
			})
		})
	}
}
