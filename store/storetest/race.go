package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/store"
)

const racers = 8

// race runs f in several goroutines at once and waits for all.
func race(f func(racer int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for racer := range racers {
		wg.Go(func() {
			<-start
			f(racer)
		})
	}
	close(start)
	wg.Wait()
}

var raceCases = []testCase{
	{"OneOfManyIfAbsentWins", func(t *testing.T, s store.Store) {
		for round := range 20 {
			key := fmt.Sprint("k", round)
			var winners atomic.Int32
			race(func(racer int) {
				_, err := s.Put(context.Background(), key, []byte(strconv.Itoa(racer)), store.PutOptions{TTL: forever, IfAbsent: true})
				if err == nil {
					winners.Add(1)
				} else if !errors.Is(err, store.ErrConflict) {
					t.Errorf("Put: %v", err)
				}
			})
			if n := winners.Load(); n != 1 {
				t.Fatalf("%d of %d writers won", n, racers)
			}
		}
	}},
	{"CompareAndSwapLosesNoIncrement", func(t *testing.T, s store.Store) {
		const each = 25
		put(t, s, "counter", "0", store.PutOptions{TTL: forever})
		race(func(int) {
			for range each {
				if err := increment(s, "counter"); err != nil {
					t.Error(err)
					return
				}
			}
		})
		if got, want := string(get(t, s, "counter").Value), strconv.Itoa(racers*each); got != want {
			t.Fatalf("the counter is %s, want %s", got, want)
		}
	}},
	{"ReadersSeeWholeItems", func(t *testing.T, s store.Store) {
		// A value names the round it was written in all over; a torn one would name two.
		value := func(round int) []byte { return fmt.Appendf(nil, "%064d%064d", round, round) }
		race(func(racer int) {
			ctx := context.Background()
			for round := range 50 {
				var err error
				switch racer % 4 {
				case 0:
					_, err = s.Put(ctx, "k", value(round), store.PutOptions{TTL: forever})
				case 1:
					err = s.Delete(ctx, "k")
				case 2:
					_, err = s.Touch(ctx, "k", forever)
				default:
					var item store.Item
					item, err = s.Get(ctx, "k")
					if err == nil && (len(item.Value) != 128 || string(item.Value[:64]) != string(item.Value[64:])) {
						t.Errorf("a torn value: %q", item.Value)
					}
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}},
}

func increment(s store.Store, key string) error {
	ctx := context.Background()
	for {
		item, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			return err
		}
		next := strconv.AppendInt(nil, int64(n+1), 10)
		_, err = s.Put(ctx, key, next, store.PutOptions{TTL: forever, IfVersion: item.Version})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
