package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/store"
)

const racers = 8

// race runs f in several goroutines at once and waits for all of them.
func race(f func(racer int)) { concurrently(racers, f) }

// concurrently is race with n goroutines.
func concurrently(n int, f func(racer int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for racer := range n {
		wg.Go(func() {
			<-start
			f(racer)
		})
	}
	close(start)
	wg.Wait()
}

var raceCases = []testCase[store.KV]{
	{"OnlyOneConcurrentIfAbsentSucceeds", func(t tb, kv store.KV) {
		for round := range 20 {
			key := fmt.Sprint("k", round)
			var winners atomic.Int32
			race(func(racer int) {
				_, err := kv.Put(context.Background(), key, []byte(strconv.Itoa(racer)), store.PutOptions{TTL: forever, IfAbsent: true})
				if err == nil {
					winners.Add(1)
				} else if !errors.Is(err, store.ErrConflict) {
					t.Errorf("Put: %v", err)
				}
			})
			if n := winners.Load(); n != 1 {
				t.Fatalf("%d of %d writers succeeded, want 1", n, racers)
			}
		}
	}},
	{"CompareAndSwapLosesNoUpdate", func(t tb, kv store.KV) {
		const each = 25
		put(t, kv, "counter", "0", store.PutOptions{TTL: forever})
		race(func(int) {
			for range each {
				if err := increment(kv, "counter"); err != nil {
					t.Error(err)
					return
				}
			}
		})
		if got, want := string(get(t, kv, "counter").Value), strconv.Itoa(racers*each); got != want {
			t.Fatalf("the counter is %s, want %s", got, want)
		}
	}},
	{"ConcurrentReadsReturnWholeValues", func(t tb, kv store.KV) {
		// A value contains its round twice. A torn value contains two different rounds.
		value := func(round int) []byte { return fmt.Appendf(nil, "%064d%064d", round, round) }
		race(func(racer int) {
			ctx := context.Background()
			for round := range 50 {
				var err error
				switch racer % 4 {
				case 0:
					_, err = kv.Put(ctx, "k", value(round), store.PutOptions{TTL: forever})
				case 1:
					err = kv.Delete(ctx, "k")
				case 2:
					_, err = kv.Touch(ctx, "k", forever)
				default:
					var item store.Item
					item, err = kv.Get(ctx, "k")
					if err == nil && (len(item.Value) != 128 || string(item.Value[:64]) != string(item.Value[64:])) {
						t.Errorf("Get returned parts of two values: %q", item.Value)
					}
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}},
}

func increment(kv store.KV, key string) error {
	ctx := context.Background()
	for {
		item, err := kv.Get(ctx, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			return err
		}
		next := strconv.AppendInt(nil, int64(n+1), 10)
		_, err = kv.Put(ctx, key, next, store.PutOptions{TTL: forever, IfVersion: item.Version})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
