//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// sentinel starts a Sentinel that watches a master under the name "main".
func sentinel(t *testing.T, master *server) *server {
	t.Helper()
	addr := freeAddr(t)
	s := &server{addr: addr}
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n", s.port(), master.port())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startAt(t, addr, master.program, config, "--sentinel")
}

// When the master dies, a replica takes its place. What it had received is there, the
// subscriptions continue, and a lease is held by one owner.
func TestFailOver(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		master := start(t, program)
		replica := start(t, program, "--replicaof", "127.0.0.1 "+master.port())
		watcher := sentinel(t, master)
		wait(t, "the replica follows the master and the Sentinel knows it", func() error {
			if link := field(replica.command("info", "replication").(string), "master_link_status"); link != "up" {
				return fmt.Errorf("the link is %s", link)
			}
			if replicas, _ := watcher.command("sentinel", "replicas", "main").([]any); len(replicas) != 1 {
				return fmt.Errorf("the Sentinel knows %d replicas", len(replicas))
			}
			return nil
		})
		o := Options{Addrs: []string{watcher.addr}, MasterName: "main"}
		a, b := connect(t, o), connect(t, o)
		subscription, err := b.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		lease, err := a.Put(ctx, "lease", []byte("a"), store.PutOptions{TTL: time.Hour, IfAbsent: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Append(ctx, stream, 1, []byte("entry"), entries); err != nil {
			t.Fatal(err)
		}
		// WAIT waits for the last write of its own connection, which follows the others.
		connection := master.client().Conn()
		defer connection.Close()
		if err := connection.Set(ctx, "last", "", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := connection.Wait(ctx, 1, patience).Result(); n != 1 {
			t.Fatalf("%d replicas have the data, want 1: %v", n, err)
		}

		master.kill()
		var version uint64
		wait(t, "the replica is the master", func() error {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var err error
			version, err = a.Put(limited, "new", nil, hour)
			if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Put during the fail-over: %v, want ErrUnavailable", err)
			}
			return err
		})
		if item, err := b.Get(ctx, "new"); err != nil || item.Version != version {
			t.Errorf("Get = %+v, %v; want version %d", item, err, version)
		}
		if _, err := b.Put(ctx, "lease", []byte("b"), store.PutOptions{TTL: time.Hour, IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("another owner acquires the lease: %v, want ErrConflict", err)
		}
		if _, err := a.Put(ctx, "lease", []byte("a"), store.PutOptions{TTL: time.Hour, IfVersion: lease}); err != nil {
			t.Errorf("the owner renews the lease: %v", err)
		}
		if got, err := b.ReadAfter(ctx, stream, 0); err != nil || len(got) != 1 || string(got[0]) != "entry" {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		wantLost(t, a, subscription, "t")
	})
}
