//go:build integration

package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// With an append-only file that is written before each answer, everything survives a crash,
// and versions from before it are never assigned again.
func TestRestartFromAppendOnlyFile(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program, "--appendonly", "yes", "--appendfsync", "always")
		s := connect(t, at(server.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()

		versions := make(map[string]uint64)
		for i := range 100 {
			key := fmt.Sprint("k", i)
			if versions[key], err = s.Put(ctx, key, []byte(key), hour); err != nil {
				t.Fatal(err)
			}
		}
		deleted := versions["k0"]
		if err := s.Delete(ctx, "k0"); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(ctx, "set", "member", members); err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= 15; seq++ {
			if err := s.Append(ctx, stream, seq, fmt.Append(nil, seq), entries); err != nil {
				t.Fatal(err)
			}
		}

		server.kill()
		server.start()
		wait(t, "Redis has loaded its data", func() error { _, err := s.Get(ctx, "k1"); return err })
		wantLost(t, s, subscription, "t")

		for i := 1; i < 100; i++ {
			key := fmt.Sprint("k", i)
			item, err := s.Get(ctx, key)
			if err != nil || string(item.Value) != key || item.Version != versions[key] {
				t.Fatalf("Get(%s) = %q version %d, %v; want version %d", key, item.Value, item.Version, err, versions[key])
			}
			if _, err := s.Put(ctx, key, nil, store.PutOptions{TTL: time.Hour, IfVersion: versions[key]}); err != nil {
				t.Fatalf("compare-and-swap after the restart: %v", err)
			}
		}
		if _, err := s.Get(ctx, "k0"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of a deleted item: %v", err)
		}
		again, err := s.Put(ctx, "k0", nil, store.PutOptions{TTL: time.Hour, IfAbsent: true})
		if err != nil || again == deleted {
			t.Errorf("Put = %d, %v; version %d was used before the restart", again, err, deleted)
		}
		if got, err := s.List(ctx, "set", "", 10); err != nil || !slices.Equal(got, []string{"member"}) {
			t.Errorf("List = %q, %v", got, err)
		}
		if got, err := s.ReadAfter(ctx, stream, 5); err != nil || len(got) != 10 || string(got[9]) != "15" {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		if err := s.Append(ctx, stream, 16, nil, entries); err != nil {
			t.Errorf("Append after the restart: %v", err)
		}
		server.everyKeyExpires()
	})
}

// Without persistence, a restart deletes everything. No compare-and-swap with an old version
// succeeds.
func TestRestartWithoutPersistence(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		s := connect(t, at(server.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		old, err := s.Put(ctx, "k", []byte("value"), hour)
		if err != nil {
			t.Fatal(err)
		}
		server.kill()
		server.start()
		wait(t, "Redis answers", func() error {
			if _, err := s.Get(ctx, "k"); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("Get: %w", err)
			}
			return nil
		})
		wantLost(t, s, subscription, "t")
		if _, err := s.Put(ctx, "k", nil, store.PutOptions{TTL: time.Hour, IfVersion: old}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("compare-and-swap: %v, want ErrConflict", err)
		}
		for range 100 {
			version, err := s.Put(ctx, "k", nil, hour)
			if err != nil || version == old {
				t.Fatalf("Put = %d, %v; version %d was used before the restart", version, err, old)
			}
		}
	})
}
