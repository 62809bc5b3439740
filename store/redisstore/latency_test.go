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

// With 2 seconds of latency everything works.
func TestLatency(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		p.delay.Store(int64(2 * time.Second))
		var using sync.WaitGroup
		for i := range 8 {
			using.Go(func() {
				key := fmt.Sprint("k", i)
				subscription, err := s.Subscribe(ctx, key, 10)
				if err != nil {
					t.Errorf("Subscribe: %v", err)
					return
				}
				defer subscription.Close()
				version, err := s.Put(ctx, key, []byte(key), hour)
				if err != nil {
					t.Errorf("Put: %v", err)
				}
				if item, err := s.Get(ctx, key); err != nil || string(item.Value) != key || item.Version != version {
					t.Errorf("Get(%s) = %q version %d, %v; want version %d", key, item.Value, item.Version, err, version)
				}
				if err := s.Publish(ctx, key, []byte(key)); err != nil {
					t.Errorf("Publish: %v", err)
				}
				if m, err := next(subscription); err != nil || string(m.Data) != key {
					t.Errorf("received %+v, %v", m, err)
				}
			})
		}
		using.Wait()
	})
}

// Operations return as soon as their context ends, and an answer that arrives later does not
// reach another operation.
func TestContextEndsWhileRedisDoesNotAnswer(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 2
		s := connect(t, o)
		for i := range 4 {
			if _, err := s.Put(ctx, fmt.Sprint("k", i), fmt.Append(nil, i), hour); err != nil {
				t.Fatal(err)
			}
		}
		p.delay.Store(int64(time.Hour))
		for want, end := range map[error]func() (context.Context, context.CancelFunc){
			context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 50*time.Millisecond)
			},
			context.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(50*time.Millisecond, cancel)
				return ctx, cancel
			},
		} {
			for name, do := range map[string]func(ctx context.Context) error{
				"Get":       func(ctx context.Context) error { _, err := s.Get(ctx, "k0"); return err },
				"Put":       func(ctx context.Context) error { _, err := s.Put(ctx, "late", nil, hour); return err },
				"Append":    func(ctx context.Context) error { return s.Append(ctx, stream, 1, nil, entries) },
				"Subscribe": func(ctx context.Context) error { _, err := s.Subscribe(ctx, "t", 1); return err },
			} {
				ctx, cancel := end()
				if err := do(ctx); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				cancel()
			}
		}
		p.delay.Store(0)
		p.cut(false) // discards the answers that the proxy holds
		for i := range 4 {
			item, err := s.Get(ctx, fmt.Sprint("k", i))
			if err != nil || string(item.Value) != fmt.Sprint(i) {
				t.Errorf("Get(k%d) = %q, %v", i, item.Value, err)
			}
		}
	})
}

// next returns the next message of a subscription.
func next(s *store.Subscription) (store.Message, error) {
	select {
	case m, open := <-s.C:
		if !open {
			return m, errors.New("the subscription was closed")
		}
		return m, nil
	case <-time.After(patience):
		return store.Message{}, errors.New("no message arrived")
	}
}

func receive(t *testing.T, s *store.Subscription) store.Message {
	t.Helper()
	m, err := next(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantLost checks that a subscription reports loss and that messages arrive after it.
func wantLost(t *testing.T, s *Store, subscription *store.Subscription, topic string) {
	t.Helper()
	if m := receive(t, subscription); !m.Lost {
		t.Fatalf("received %+v, want a report of loss", m)
	}
	if err := s.Publish(ctx, topic, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, subscription); string(m.Data) != "after" {
		t.Fatalf("received %+v, want the message after the report of loss", m)
	}
}

// While Redis cannot be reached, operations fail at once. Later they succeed, and subscribers
// learn that they may have missed messages.
func TestPartition(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		if _, err := s.Put(ctx, "k", []byte("value"), hour); err != nil {
			t.Fatal(err)
		}
		p.cut(true)
		if _, err := s.Get(ctx, "k"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Get: %v, want ErrUnavailable", err)
		}
		if _, err := s.Put(ctx, "k", nil, hour); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Put: %v, want ErrUnavailable", err)
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Subscribe(limited, "other", 10); err == nil {
			t.Error("Subscribe succeeded")
		}
		p.allow()
		wait(t, "Redis can be reached", func() error { _, err := s.Get(ctx, "k"); return err })
		wantLost(t, s, subscription, "t")
	})
}

// A connection of the subscriptions that is open but silent is replaced.
func TestSilentConnectionIsReplaced(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		s.bus.silence, s.bus.ping = time.Second, 100*time.Millisecond
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		opened := p.opened.Load()
		p.delay.Store(int64(time.Hour)) // for parts of answers that arrive from now on
		wait(t, "another connection is opened", func() error {
			if p.opened.Load() == opened {
				return errors.New("no connection was opened")
			}
			return nil
		})
		p.cut(true) // before the delay ends: a connection that works and is cut would be a second loss
		p.delay.Store(0)
		p.allow()
		wantLost(t, s, subscription, "t")
	})
}

// A user who may not subscribe learns it.
func TestSubscribeExplainsMissingPermission(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		server.command("acl", "setuser", "ada", "on", ">secret", "+@all", "~*", "resetchannels")
		o := at(server.addr)
		o.Username, o.Password = "ada", "secret"
		s := connect(t, o)
		s.bus.timeout = time.Second
		if err := s.Publish(ctx, "t", nil); err == nil || !strings.Contains(err.Error(), "grant") {
			t.Errorf("Publish: %v, want an error that says what to grant", err)
		}
		if _, err := s.Subscribe(ctx, "t", 1); err == nil || !strings.Contains(err.Error(), "grant") {
			t.Errorf("Subscribe: %v, want an error that says what to grant", err)
		}
		s.bus.timeout = patience
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Subscribe(short, "t", 1); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "grant") {
			t.Errorf("Subscribe with a deadline: %v, want an error that says what to grant", err)
		}
	})
}
