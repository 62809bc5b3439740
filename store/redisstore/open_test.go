//go:build integration

package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Eviction destroys tasks, so Open rejects it unless the caller allows it.
func TestOpenRejectsEviction(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		for _, policy := range []string{"allkeys-lru", "volatile-lru", "allkeys-random", "volatile-ttl"} {
			server.command("config", "set", "maxmemory-policy", policy)
			wantOpenError(t, at(server.addr), ErrEviction, "CONFIG SET maxmemory-policy noeviction")
			o := at(server.addr)
			o.AllowEviction = true
			if _, err := connect(t, o).Put(ctx, "k", nil, hour); err != nil {
				t.Error(err)
			}
		}
		server.command("config", "set", "maxmemory-policy", "noeviction")
		connect(t, at(server.addr))
	})
}

func TestOpenExplainsErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program, "--requirepass", "secret")
		wantOpenError(t, at(server.addr), nil, "set Username and Password")
		wantOpenError(t, Options{Addrs: []string{server.addr}, Password: "wrong"}, nil, "check Username and Password")
		wantOpenError(t, Options{Addrs: []string{server.addr}, Password: "secret", Cluster: true}, nil, "cluster")
		wantOpenError(t, at(freeAddr(t)), ErrUnavailable, "connection refused")
		s := connect(t, Options{Addrs: []string{server.addr}, Password: "secret"})
		if _, err := s.Put(ctx, "k", nil, hour); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(ctx, "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("Get after Close: %v, want ErrClosed", err)
		}
		if _, err := s.Subscribe(ctx, "t", 1); !errors.Is(err, ErrClosed) {
			t.Errorf("Subscribe after Close: %v, want ErrClosed", err)
		}
	})
}

func TestOpenInClusterNeedsClusterOption(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		nodes := cluster(t, program)
		wantOpenError(t, at(nodes[0].addr), nil, "set Cluster")
		nodes[1].command("config", "set", "maxmemory-policy", "allkeys-lru")
		wantOpenError(t, inCluster(nodes), ErrEviction, "noeviction")
	})
}

// When maxmemory is reached, nothing is lost, and a task can still end.
func TestFullMemory(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		s := connect(t, at(server.addr))
		server.limitMemory(1 << 20)
		task, err := s.Put(ctx, "task", []byte(strings.Repeat("x", 100)), hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(ctx, stream, 1, []byte("entry"), entries); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(ctx, "set", "member", members); err != nil {
			t.Fatal(err)
		}
		err = nil
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = s.Put(ctx, fmt.Sprint("k", i), make([]byte, 1000), hour)
		}
		if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "raise") {
			t.Fatalf("Put: %v, want ErrFull and what to do", err)
		}
		if err := s.Append(ctx, stream, 2, nil, entries); !errors.Is(err, store.ErrFull) {
			t.Errorf("Append: %v, want ErrFull", err)
		}
		if err := s.Add(ctx, "set", "another", members); !errors.Is(err, store.ErrFull) {
			t.Errorf("Add of a new member: %v, want ErrFull", err)
		}
		if err := s.Add(ctx, "set", "member", store.AddOptions{TTL: 2 * time.Hour, Max: 10}); err != nil {
			t.Errorf("Add of a member: %v", err)
		}
		if got, err := s.ReadAfter(ctx, stream, 0); err != nil || len(got) != 1 {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		if _, err := s.Put(ctx, "task", []byte(strings.Repeat("x", 101)), store.PutOptions{TTL: time.Hour, IfVersion: task}); !errors.Is(err, store.ErrFull) {
			t.Errorf("Put of a longer value: %v, want ErrFull", err)
		}
		if task, err = s.Put(ctx, "task", []byte("completed"), store.PutOptions{TTL: time.Hour, IfVersion: task}); err != nil {
			t.Errorf("Put of a shorter value: %v", err)
		}
		if item, err := s.Touch(ctx, "task", 2*time.Hour); err != nil || string(item.Value) != "completed" || item.Version != task {
			t.Errorf("Touch = %+v, %v", item, err)
		}
		if err := s.Publish(ctx, "t", []byte("message")); err != nil {
			t.Errorf("Publish: %v", err)
		}
	})
}

// Items expire by the clock of Redis.
func TestItemsExpire(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := connect(t, at(start(t, program).addr))
		if _, err := s.Put(ctx, "k", nil, store.PutOptions{TTL: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(ctx, "set", "member", store.AddOptions{TTL: 1, Max: 1}); err != nil {
			t.Fatal(err)
		}
		wait(t, "everything has expired", func() error {
			list, err := s.List(ctx, "set", "", 10)
			if _, missing := s.Get(ctx, "k"); !errors.Is(missing, store.ErrNotFound) || len(list) > 0 {
				err = fmt.Errorf("Get: %w, List: %q", missing, list)
			}
			return err
		})
	})
}

// Stores with another prefix or database share nothing.
func TestPrefixesAndDatabasesAreIndependent(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		var subscriptions []*store.Subscription
		for i, o := range []Options{{}, {Prefix: "other:"}, {DB: 1}, {Prefix: "parley:k"}} {
			o.Addrs = []string{server.addr}
			s := connect(t, o)
			if _, err := s.Put(ctx, "k", fmt.Append(nil, i), store.PutOptions{TTL: time.Hour, IfAbsent: true}); err != nil {
				t.Fatal(err)
			}
			subscription, err := s.Subscribe(ctx, "t", 10)
			if err != nil {
				t.Fatal(err)
			}
			defer subscription.Close()
			subscriptions = append(subscriptions, subscription)
			if err := s.Publish(ctx, "t", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for i, subscription := range subscriptions {
			if m := receive(t, subscription); string(m.Data) != fmt.Sprint(i) {
				t.Errorf("store %d received %q", i, m.Data)
			}
			if len(subscription.C) > 0 {
				t.Errorf("store %d received messages of another store", i)
			}
		}
	})
}
