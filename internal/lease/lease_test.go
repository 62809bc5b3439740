package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/store"
)

// countingKV counts writes. Operations fail while it is down.
type countingKV struct {
	store.KV
	puts atomic.Int64
	down atomic.Bool
}

var errDown = errors.New("the store is down")

func (kv *countingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	kv.puts.Add(1)
	if kv.down.Load() {
		return 0, errDown
	}
	time.Sleep(time.Millisecond)
	return kv.KV.Put(ctx, key, value, opt)
}

func (kv *countingKV) Get(ctx context.Context, key string) (store.Item, error) {
	if kv.down.Load() {
		return store.Item{}, errDown
	}
	return kv.KV.Get(ctx, key)
}

func newReplicas() (kv *countingKV, a, b *Lease) {
	kv = &countingKV{KV: store.NewMemory()}
	newLease := func() *Lease { return &Lease{KV: kv, Shared: true, Logger: slog.New(slog.DiscardHandler)} }
	return kv, newLease(), newLease()
}

func wantAlive(t *testing.T, l *Lease, replica string, want bool) {
	t.Helper()
	value, err := l.get(t.Context(), replica)
	alive := value == serving || value == draining
	must.CheckThat(t, alive == want && err == nil, "alive is %v, want %v: %v", alive, want, err)
}

func TestALeaseIsRenewedUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, b := newReplicas()
		wantAlive(t, b, a.ID(), false)
		var taking sync.WaitGroup
		for range 10 {
			taking.Go(func() { must.Check(t, a.Take(t.Context())) })
		}
		taking.Wait()
		must.CheckEqual(t, kv.puts.Load(), 3) // the lease once, and that the store is within reach again
		time.Sleep(10 * TTL)
		wantAlive(t, b, a.ID(), true)
		for range 2 {
			must.Check(t, a.Close(t.Context()))
		}
		wantAlive(t, b, a.ID(), false)
		err := a.Take(t.Context())
		must.CheckThat(t, err != nil, "a lease was taken after Close")
	})
}

func TestAnAbandonedLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newReplicas()
		must.Do(t, a.Take(t.Context()))
		time.Sleep(Renew)
		a.Abandon()
		wantAlive(t, b, a.ID(), true)
		time.Sleep(TTL)
		wantAlive(t, b, a.ID(), false)
	})
}

func TestALeaseThatCannotBeWrittenIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, b := newReplicas()
		kv.down.Store(true)
		must.CheckIs(t, a.Take(t.Context()), errDown)
		kv.down.Store(false)
		must.Check(t, a.Take(t.Context()))
		wantAlive(t, b, a.ID(), true)
		kv.down.Store(true) // for less than the lease lasts
		time.Sleep(TTL / 2)
		kv.down.Store(false)
		time.Sleep(TTL)
		wantAlive(t, b, a.ID(), true)
		a.Abandon()
	})
}

func TestALeaseWithoutUsesExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := newReplicas()
		for range 2 {
			must.Do(t, a.Take(t.Context()))
		}
		a.Release()
		time.Sleep(2 * TTL)
		wantAlive(t, b, a.ID(), true)
		a.Release()
		time.Sleep(2 * TTL)
		wantAlive(t, b, a.ID(), false)
		must.Do(t, a.Take(t.Context()))
		wantAlive(t, b, a.ID(), true)
		a.Release()
		time.Sleep(Renew)
	}) // the bubble fails if a goroutine is left
}

// The replica begins to shut down while its lease is written.
func TestALeaseTellsOfAShutdownThatBeginsWhileItIsWritten(t *testing.T) {
	for _, what := range []string{"taken", "renewed"} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b := newReplicas()
			if what == "taken" {
				go func() { _ = a.Take(t.Context()) }()
				synctest.Wait()
			} else {
				_ = a.Take(t.Context())
				time.Sleep(Renew)
			}
			must.Check(t, a.Drain(t.Context()))
			time.Sleep(Renew / 2)
			wantAlive(t, b, a.ID(), true)
			serves, err := b.Serves(t.Context(), a.ID())
			must.CheckThat(t, !serves && err == nil, "%s: serves is %v, %v", what, serves, err)
			a.Abandon()
		})
	}
}

func TestALeaseThatIsNotSharedNeedsNoStore(t *testing.T) {
	l := new(Lease)
	must.Check(t, l.Take(t.Context()))
	ended, err := l.Ended(t.Context(), "another")
	must.CheckThat(t, !ended && err == nil, "ended is %v, %v", ended, err)
	l.Release()
	must.Check(t, l.Close(t.Context()))
}

// The leases of all replicas expire while the store is away. When it is back, no replica ends another.
func TestAnOutageOfTheStoreEndsNoReplica(t *testing.T) {
	for phase := time.Duration(0); phase <= Renew; phase += 500 * time.Millisecond {
		for outage := time.Second; outage < 3*TTL; outage += 1300 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				kv, a, b := newReplicas()
				take(t, a)
				time.Sleep(phase)
				take(t, b)
				time.Sleep(2 * TTL)
				kv.down.Store(true)
				time.Sleep(outage)
				kv.down.Store(false)
				for range int(2 * TTL / time.Second * 4) {
					for _, pair := range [][2]*Lease{{a, b}, {b, a}} {
						ended, err := pair[0].Ended(t.Context(), pair[1].ID())
						must.That(t, !ended && err == nil, "after an outage of %v: ended is %v, %v", outage, ended, err)
					}
					time.Sleep(time.Second / 4)
				}
				a.Abandon()
				begin := time.Now()
				for ended := false; !ended; time.Sleep(time.Second / 4) {
					ended, _ = b.Ended(t.Context(), a.ID())
				}
				took := time.Since(begin)
				must.CheckThat(t, took <= TTL+time.Second, "the other replica learns of the end after %v", took)
				b.Abandon()
			})
		}
	}
}

// Replicas die one after another, so that none holds its lease for long. Each death is noticed as soon as the lease
// has expired, even by a replica that has just started.
func TestAReplicaThatHasJustStartedLearnsOfTheEndOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, first, second := newReplicas()
		alive := []*Lease{first, second}
		take(t, first)
		take(t, second)
		time.Sleep(2 * TTL)
		for i := range 10 {
			dead := alive[0]
			dead.Abandon()
			died := time.Now()
			time.Sleep(maxPause / 2)
			next := &Lease{KV: kv, Shared: true, Logger: slog.New(slog.DiscardHandler)}
			take(t, next)
			alive = append(alive[1:], next)
			if i%2 == 1 { // the next one dies before this one is noticed
				continue
			}
			for noticed := false; !noticed; time.Sleep(time.Second / 4) {
				noticed, _ = next.Ended(t.Context(), dead.ID())
			}
			took := time.Since(died)
			must.CheckThat(t, took <= TTL+time.Second, "death %d is noticed after %v", i, took)
		}
		for _, l := range alive {
			l.Abandon()
		}
	})
}

func TestNoReplicaIsJudgedAfterAnOutage(t *testing.T) {
	for name, prepare := range map[string]func(kv *countingKV, b *Lease){
		"not taken":  func(*countingKV, *Lease) {},
		"just taken": func(_ *countingKV, b *Lease) { take(t, b) },
		"data is lost": func(kv *countingKV, b *Lease) {
			take(t, b)
			time.Sleep(2 * TTL)
			for _, key := range []string{Key(b.ID()), reachedKey} {
				_ = kv.Delete(t.Context(), key)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			kv, a, b := newReplicas()
			prepare(kv, b)
			ended, err := b.Ended(t.Context(), "another")
			must.CheckThat(t, !ended && err == nil, "%s: ended is %v, %v", name, ended, err)
			take(t, a) // and gives it up
			must.Check(t, a.Close(t.Context()))
			if ended, err := b.Ended(t.Context(), a.ID()); !ended || err != nil {
				t.Errorf("%s: a replica that has given up its lease: ended is %v, %v", name, ended, err)
			}
			b.Abandon()
		})
	}
}

func take(t *testing.T, l *Lease) {
	t.Helper()
	must.Do(t, l.Take(context.Background()))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
