//go:build integration

package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

const writers, increments, disturbances = 6, 60, 8

// countWhile has several writers increment a counter by compare-and-swap, and one append to a
// stream, until each has succeeded often enough. disturb runs several times meanwhile, always
// after some of them have succeeded. No acknowledged write is lost, and none is executed
// twice.
func countWhile(t *testing.T, s *Store, disturb func()) {
	t.Helper()
	if _, err := s.Put(ctx, "counter", []byte("0"), hour); err != nil {
		t.Fatal(err)
	}
	var acknowledged, unknown atomic.Int64
	progress := make(chan struct{}) // the writers wait for the disturbances
	const limit = 2 * time.Minute   // after each restart the Redis client waits for a second
	deadline := time.Now().Add(limit)
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for done := 0; done < increments; {
				switch err := increment(s); {
				case err == nil:
					done++
					const part = writers * increments / (disturbances + 1)
					if n := acknowledged.Add(1); n%part == 0 && n/part <= disturbances {
						progress <- struct{}{}
					}
				case errors.Is(err, ErrUnavailable):
					unknown.Add(1)
					<-time.After(5 * time.Millisecond)
				case !errors.Is(err, store.ErrConflict):
					t.Errorf("increment: %v", err)
					return
				}
				if time.Now().After(deadline) {
					t.Errorf("a writer has succeeded %d times within %v, want %d", done, limit, increments)
					return
				}
			}
		})
	}
	limits := store.AppendOptions{TTL: time.Hour, MaxEntries: 10 * increments, MaxBytes: 1 << 20}
	writing.Go(func() {
		for seq := uint64(1); seq <= increments; {
			err := s.Append(ctx, stream, seq, fmt.Append(nil, seq), limits)
			if errors.Is(err, ErrUnavailable) && time.Now().Before(deadline) {
				<-time.After(5 * time.Millisecond)
				continue // it may have been written; then the next attempt is a conflict
			}
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Errorf("Append %d: %v", seq, err)
				return
			}
			seq++
		}
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		writing.Wait()
	}()
	for range disturbances {
		select {
		case <-progress:
			disturb()
		case <-ended:
			t.Error("the writers have ended before the disturbances")
		}
	}
	<-ended

	item, err := s.Get(ctx, "counter")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(string(item.Value), 10, 64)
	if low, high := acknowledged.Load(), acknowledged.Load()+unknown.Load(); err != nil || n < low || n > high {
		t.Errorf("the counter is %q, want %d to %d", item.Value, low, high)
	}
	got, err := s.ReadAfter(ctx, stream, 0)
	if err != nil || len(got) != increments {
		t.Fatalf("ReadAfter: %d entries, %v; want %d", len(got), err, increments)
	}
	for i, entry := range got {
		if string(entry) != fmt.Sprint(i+1) {
			t.Fatalf("entry %d is %q", i+1, entry)
		}
	}
	t.Logf("%d writes acknowledged, %d of unknown outcome", acknowledged.Load(), unknown.Load())
}

func increment(s *Store) error {
	item, err := s.Get(ctx, "counter")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(item.Value))
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, "counter", strconv.AppendInt(nil, int64(n+1), 10), store.PutOptions{TTL: time.Hour, IfVersion: item.Version})
	return err
}

func TestCutConnectionsLoseAndRepeatNothing(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		countWhile(t, connect(t, at(p.addr)), func() { p.cut(false) })
	})
}

func TestRestartsLoseAndRepeatNothing(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program, "--appendonly", "yes", "--appendfsync", "always")
		countWhile(t, connect(t, at(server.addr)), func() {
			server.kill()
			server.start()
		})
	})
}
