//go:build integration

package redisstore

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// A write whose answer is lost is not sent again: it may have been executed, and a second
// execution would report a conflict with the first. The caller learns that the outcome is
// unknown.
func TestWriteWithLostAnswerIsSentOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		p := newProxy(t, server.addr)
		s := connect(t, at(p.addr))
		version, err := s.Put(ctx, "k", []byte("old"), hour)
		if err != nil {
			t.Fatal(err)
		}
		writes := []struct {
			name string
			do   func() error
		}{
			{"Put if the version matches", func() error {
				_, err := s.Put(ctx, "k", []byte("new"), store.PutOptions{TTL: time.Hour, IfVersion: version})
				return err
			}},
			{"Put if absent", func() error {
				_, err := s.Put(ctx, "other", []byte("new"), store.PutOptions{TTL: time.Hour, IfAbsent: true})
				return err
			}},
			{"Put", func() error { _, err := s.Put(ctx, "third", []byte("new"), hour); return err }},
			{"Touch", func() error { _, err := s.Touch(ctx, "k", 2*time.Hour); return err }},
			{"Delete", func() error { return s.Delete(ctx, "third") }},
			{"Add", func() error { return s.Add(ctx, "set", "member", members) }},
			{"Remove", func() error { return s.Remove(ctx, "set", "none") }},
			{"Append", func() error { return s.Append(ctx, stream, 1, []byte("entry"), entries) }},
			{"Drop", func() error { return s.Drop(ctx, "none") }},
			{"Publish", func() error { return s.Publish(ctx, "t", nil) }},
		}
		for _, script := range []script{putScript, touchScript, addScript, removeScript, appendScript} {
			server.command("script", "load", script.source) // so that each write is one request
		}
		for _, w := range writes {
			p.drop.Store(false)
			if _, err := s.Get(ctx, "k"); err != nil { // opens a connection
				t.Fatal(err)
			}
			p.drop.Store(true)
			before := p.trips.Load()
			if err := w.do(); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", w.name, err)
			}
			if n := p.trips.Load() - before; n != 1 {
				t.Errorf("%s was sent %d times, want 1", w.name, n)
			}
		}
		p.drop.Store(false)
		for _, key := range []string{"k", "other"} {
			if item, err := s.Get(ctx, key); err != nil || string(item.Value) != "new" {
				t.Errorf("Get(%s) = %q, %v; want the value of the write", key, item.Value, err)
			}
		}
		if got, err := s.ReadAfter(ctx, stream, 0); err != nil || len(got) != 1 {
			t.Errorf("ReadAfter = %q, %v; want the entry", got, err)
		}
	})
}

// Close ends operations and subscriptions that are in progress.
func TestCloseEndsOperations(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		trips := p.trips.Load()
		p.delay.Store(int64(time.Hour))
		var using sync.WaitGroup
		for range 4 {
			using.Go(func() {
				if _, err := s.Get(ctx, "k"); !errors.Is(err, ErrClosed) {
					t.Errorf("Get: %v, want ErrClosed", err)
				}
			})
			using.Go(func() {
				if _, err := s.Subscribe(ctx, "other", 1); !errors.Is(err, ErrClosed) {
					t.Errorf("Subscribe: %v, want ErrClosed", err)
				}
			})
		}
		wait(t, "the operations wait for answers", func() error {
			if p.trips.Load()-trips < 5 {
				return errors.New("not yet")
			}
			return nil
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		using.Wait()
		if _, err := next(subscription); err == nil {
			t.Error("the subscription is open after Close")
		}
	})
}
