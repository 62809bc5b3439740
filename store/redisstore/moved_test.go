//go:build integration

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// moveSlot moves the slot of a key from one server of a cluster to another, key by key.
func moveSlot(t *testing.T, nodes []*server, key string) {
	t.Helper()
	slot := nodes[0].command("cluster", "keyslot", key).(int64)
	from, to := nodes[0], nodes[0]
	for i := range nodes {
		if first, _ := slotsOf(i); slot >= int64(first) {
			from = nodes[i]
		}
	}
	if from == to {
		to = nodes[1]
	}
	fromID, toID := from.command("cluster", "myid"), to.command("cluster", "myid")
	to.command("cluster", "setslot", slot, "importing", fromID)
	from.command("cluster", "setslot", slot, "migrating", toID)
	for {
		keys := from.command("cluster", "getkeysinslot", slot, 10).([]any)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			from.command("migrate", "127.0.0.1", to.port(), key, 0, patience.Milliseconds())
		}
	}
	to.command("cluster", "setslot", slot, "node", toID)
	from.command("cluster", "setslot", slot, "node", toID)
	if from.command("cluster", "countkeysinslot", slot) != int64(0) || to.command("cluster", "countkeysinslot", slot) == int64(0) {
		t.Fatalf("slot %d was not moved from %s to %s", slot, from.addr, to.addr)
	}
}

// Operations follow a slot while it moves to another server of the cluster.
func TestMovedSlot(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		nodes := cluster(t, program)
		s := connect(t, inCluster(nodes))
		const key = "local/session/1"
		version, err := s.Put(ctx, key, fmt.Append(nil, 0), hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(ctx, stream, 1, []byte("1"), entries); err != nil {
			t.Fatal(err)
		}

		// One writer for each, so nothing but the move can cause an error.
		moving, moved := context.WithCancel(ctx)
		var writing sync.WaitGroup
		n, seq := 0, uint64(1)
		writing.Go(func() {
			for moving.Err() == nil {
				n++
				v, err := s.Put(ctx, key, fmt.Append(nil, n), store.PutOptions{TTL: time.Hour, IfVersion: version})
				if err != nil {
					t.Errorf("Put %d: %v", n, err)
					return
				}
				version = v
			}
		})
		writing.Go(func() {
			for moving.Err() == nil {
				seq++
				if err := s.Append(ctx, stream, seq, fmt.Append(nil, seq), entries); err != nil {
					t.Errorf("Append %d: %v", seq, err)
					return
				}
			}
		})
		added := 0
		writing.Go(func() {
			for moving.Err() == nil {
				added++
				if err := s.Add(ctx, key+"/set", fmt.Sprintf("%09d", added), store.AddOptions{TTL: time.Hour, Max: 1 << 30}); err != nil {
					t.Errorf("Add %d: %v", added, err)
					return
				}
			}
		})
		moveSlot(t, nodes, s.name(itemKind, key))
		moved()
		writing.Wait()

		item, err := s.Get(ctx, key)
		if err != nil || string(item.Value) != fmt.Sprint(n) || item.Version != version {
			t.Errorf("Get = %q version %d, %v; want %d version %d", item.Value, item.Version, err, n, version)
		}
		if got, err := s.ReadAfter(ctx, stream, seq-1); err != nil || len(got) != 1 || string(got[0]) != fmt.Sprint(seq) {
			t.Errorf("ReadAfter(%d) = %q, %v", seq-1, got, err)
		}
		if got, err := s.List(ctx, key+"/set", fmt.Sprintf("%09d", added-1), 10); err != nil || len(got) != 1 {
			t.Errorf("List after member %d = %q, %v", added-1, got, err)
		}
	})
}

// All keys of a session are in one slot. Sessions are spread over the cluster, also those of
// callers who are not authenticated.
func TestKeysOfSessionShareSlot(t *testing.T) {
	s := &Store{prefix: DefaultPrefix}
	node := startNode(t, programs[0])
	slot := func(kind, key string) any { return node.command("cluster", "keyslot", s.name(kind, key)) }
	for _, owner := range []string{"anonymous/", "local/", "user/https%3A%2F%2Fas.example/ada/editor/", "user/https%3A%2F%2Fas.example/ada//"} {
		slots := make(map[any]bool)
		for i := range 20 {
			session := owner + fmt.Sprint("session/", i)
			slots[slot(itemKind, session)] = true
			for _, kind := range []string{itemKind, membersKind, expiryKind, groupKind} {
				for _, key := range []string{session, session + "/", session + "/stream/1", session + "/}{"} {
					if got, want := slot(kind, key), slot(itemKind, session); got != want {
						t.Errorf("key %q of kind %s is in slot %v, the session is in slot %v", key, kind, got, want)
					}
				}
			}
		}
		if len(slots) < 15 {
			t.Errorf("20 sessions of %s are in %d slots", owner, len(slots))
		}
	}
}
