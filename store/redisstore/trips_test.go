//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

var (
	ctx     = context.Background()
	hour    = store.PutOptions{TTL: time.Hour}
	members = store.AddOptions{TTL: time.Hour, Max: 10}
	entries = store.AppendOptions{TTL: time.Hour, MaxEntries: 10, MaxBytes: 10_000}
	stream  = store.StreamKey{Group: "local/session/1", Stream: "s"}
)

// Every operation is one round trip.
func TestOperationsTakeOneRoundTrip(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 1
		s := connect(t, o)
		var version uint64
		seq := uint64(0)
		put := func(opt store.PutOptions) error {
			v, err := s.Put(ctx, "k", []byte("value"), opt)
			if err == nil {
				version = v
			}
			return err
		}
		operations := []struct {
			name string
			do   func() error
		}{
			{"Put", func() error { return put(hour) }},
			{"Put if the version matches", func() error { return put(store.PutOptions{TTL: time.Hour, IfVersion: version}) }},
			{"Put if absent", func() error {
				if err := put(store.PutOptions{TTL: time.Hour, IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
					return fmt.Errorf("got %v, want ErrConflict", err)
				}
				return nil
			}},
			{"Get", func() error { _, err := s.Get(ctx, "k"); return err }},
			{"Touch", func() error { _, err := s.Touch(ctx, "k", 2*time.Hour); return err }},
			{"Delete", func() error { return s.Delete(ctx, "other") }},
			{"Add", func() error { return s.Add(ctx, "set", "member", members) }},
			{"List", func() error { _, err := s.List(ctx, "set", "", 10); return err }},
			{"Remove", func() error { return s.Remove(ctx, "set", "other") }},
			{"Append", func() error { seq++; return s.Append(ctx, stream, seq, []byte("entry"), entries) }},
			{"ReadAfter", func() error { _, err := s.ReadAfter(ctx, stream, seq-1); return err }},
			{"Drop", func() error { return s.Drop(ctx, "other") }},
			{"Publish", func() error { return s.Publish(ctx, "t", []byte("message")) }},
		}
		const rounds = 11 // the first sends the scripts
		for round := range rounds {
			for _, o := range operations {
				before := p.trips.Load()
				if err := o.do(); err != nil {
					t.Fatalf("%s: %v", o.name, err)
				}
				if n := p.trips.Load() - before; round > 0 && n != 1 {
					t.Errorf("%s takes %d round trips, want 1", o.name, n)
				}
			}
		}
	})
}

// The number of connections does not depend on the number of operations and subscriptions.
func TestConnectionsAreFew(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 4
		s := connect(t, o)
		var using sync.WaitGroup
		for i := range 200 {
			using.Go(func() {
				key := fmt.Sprint("k", i)
				subscription, err := s.Subscribe(ctx, key, 1)
				if err != nil {
					t.Error(err)
					return
				}
				defer subscription.Close()
				for range 10 {
					if _, err := s.Put(ctx, key, []byte(strings.Repeat("x", 1000)), hour); err != nil {
						t.Error(err)
					}
				}
			})
		}
		using.Wait()
		if n := p.opened.Load(); n > 5 {
			t.Errorf("the store has opened %d connections, want at most 4 and one for subscriptions", n)
		}
	})
}
