//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/store"
)

const writers, increments, disturbances = 6, 60, 8

// countWhile lets several writers increment a counter by compare-and-swap, and one append to a stream, until each
// has succeeded often enough. In the meantime, disturb runs several times, each time after some of them have
// succeeded. No acknowledged write is lost, and none is executed twice.
func countWhile(t *testing.T, s *redisStore, disturb func()) {
	t.Helper()
	must.Do(t, must.Err(s.Put(ctx, "counter", []byte("0"), hour)))
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
				continue // the value may have been written; then the next attempt is a conflict
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
	must.Do(t, err)
	n, err := strconv.ParseInt(string(item.Value), 10, 64)
	if low, high := acknowledged.Load(), acknowledged.Load()+unknown.Load(); err != nil || n < low || n > high {
		t.Errorf("the counter is %q, want %d to %d", item.Value, low, high)
	}
	got, err := s.ReadAfter(ctx, stream, 0)
	must.That(t, err == nil && len(got) == increments, "ReadAfter: %d entries, %v; want %d", len(got), err, increments)
	for i, entry := range got {
		must.That(t, string(entry) == fmt.Sprint(i+1), "entry %d is %q", i+1, entry)
	}
	t.Logf("%d writes acknowledged, %d of unknown outcome", acknowledged.Load(), unknown.Load())
}

func increment(s *redisStore) error {
	item, err := s.Get(ctx, "counter")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(item.Value))
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, "counter", strconv.AppendInt(nil, int64(n+1), 10),
		store.PutOptions{TTL: time.Hour, IfVersion: item.Version})
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

// A write whose answer is lost is not sent again: it may have been executed, and a second execution would report a
// conflict with the first. The caller learns that the outcome is unknown.
func TestWriteWithLostAnswerIsSentOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		p := newProxy(t, server.addr)
		s := connect(t, at(p.addr))
		version, err := s.Put(ctx, "k", []byte("old"), hour)
		must.Do(t, err)
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
			{"Add", func() error { return s.Add(ctx, "set", "member", time.Hour, 10) }},
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
			must.Do(t, must.Err(s.Get(ctx, "k"))) // opens a connection
			p.drop.Store(true)
			before := p.trips.Load()
			err := w.do()
			must.CheckThat(t, errors.Is(err, ErrUnavailable), "%s: %v, want ErrUnavailable", w.name, err)
			n := p.trips.Load() - before
			must.CheckThat(t, n == 1, "%s was sent %d times, want 1", w.name, n)
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
		must.Do(t, err)
		trips := p.trips.Load()
		p.delay.Store(int64(time.Hour))
		var using sync.WaitGroup
		for range 4 {
			using.Go(func() {
				_, err := s.Get(ctx, "k")
				must.CheckThat(t, errors.Is(err, errClosed), "Get: %v, want errClosed", err)
			})
			using.Go(func() {
				_, err := s.Subscribe(ctx, "other", 1)
				must.CheckThat(t, errors.Is(err, errClosed), "Subscribe: %v, want errClosed", err)
			})
		}
		wait(t, "the operations wait for answers", func() error {
			if p.trips.Load()-trips < 5 {
				return errors.New("not yet")
			}
			return nil
		})
		must.Check(t, s.Close())
		using.Wait()
		if _, err := next(subscription); err == nil {
			t.Error("the subscription is open after Close")
		}
	})
}

// Three replicas, each with its own connections, serve one stream that is cut 50 times.
func TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		replicatest.CutCall(t, func() store.Store { return connect(t, Options{Addrs: []string{s.addr}}) })
	})
}

// The standalone stream of a session is cut 50 times, and moves between three replicas.
func TestEachEventOfAStandaloneStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		replicatest.CutStandalone(t, func() store.Store { return connect(t, Options{Addrs: []string{s.addr}}) })
	})
}

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
	if from.command("cluster", "countkeysinslot", slot) != int64(0) ||
		to.command("cluster", "countkeysinslot", slot) == int64(0) {
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
		must.Do(t, err)
		must.Do(t, s.Append(ctx, stream, 1, []byte("1"), entries))

		// One writer for each key, so that only the move can cause an error.
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
				if err := s.Add(ctx, key+"/set", fmt.Sprintf("%09d", added), time.Hour, 1<<30); err != nil {
					t.Errorf("Add %d: %v", added, err)
					return
				}
			}
		})
		moveSlot(t, nodes, s.name(itemKind, key))
		moved()
		writing.Wait()

		item, err := s.Get(ctx, key)
		must.CheckThat(t, err == nil && string(item.Value) == fmt.Sprint(n) && item.Version == version,
			"Get = %q version %d, %v; want %d version %d", item.Value, item.Version, err, n, version)
		if got, err := s.ReadAfter(ctx, stream, seq-1); err != nil || len(got) != 1 ||
			string(got[0]) != fmt.Sprint(seq) {
			t.Errorf("ReadAfter(%d) = %q, %v", seq-1, got, err)
		}
		if got, err := s.List(ctx, key+"/set", fmt.Sprintf("%09d", added-1), 10); err != nil || len(got) != 1 {
			t.Errorf("List after member %d = %q, %v", added-1, got, err)
		}
	})
}

// All keys of a session are in one slot. Sessions are spread over the cluster, even those of
// unauthenticated callers.
func TestKeysOfSessionShareSlot(t *testing.T) {
	s := &redisStore{prefix: DefaultPrefix}
	node := startNode(t, programs[0])
	slot := func(kind, key string) any { return node.command("cluster", "keyslot", s.name(kind, key)) }
	for _, owner := range []string{"anonymous/", "local/", "user/https%3A%2F%2Fas.example/ada/editor/",
		"user/https%3A%2F%2Fas.example/ada//"} {
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
		must.CheckThat(t, len(slots) >= 15, "20 sessions of %s are in %d slots", owner, len(slots))
	}
}

// sentinel starts a Sentinel that watches a master under the name "main".
func sentinel(t *testing.T, master *server) *server {
	t.Helper()
	addr := freeAddr(t)
	s := &server{addr: addr}
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n", s.port(), master.port())
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	return startAt(t, addr, master.program, config, "--sentinel")
}

// When the master dies, a replica takes its place. What the replica had received is
// still there, the subscriptions continue, and a lease has only one owner.
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
		must.Do(t, err)
		defer subscription.Close()
		lease, err := a.Put(ctx, "lease", []byte("a"), store.PutOptions{TTL: time.Hour, IfAbsent: true})
		must.Do(t, err)
		must.Do(t, a.Append(ctx, stream, 1, []byte("entry"), entries))
		// WAIT waits for the last write of its own connection, which follows all others.
		connection := master.client().Conn()
		defer connection.Close()
		must.Do(t, connection.Set(ctx, "last", "", time.Hour).Err())
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
			must.CheckThat(t, err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded),
				"Put during the fail-over: %v, want ErrUnavailable", err)
			return err
		})
		if item, err := b.Get(ctx, "new"); err != nil || item.Version != version {
			t.Errorf("Get = %+v, %v; want version %d", item, err, version)
		}
		if _, err := b.Put(ctx, "lease", []byte("b"), store.PutOptions{TTL: time.Hour, IfAbsent: true}); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("another owner acquires the lease: %v, want ErrConflict", err)
		}
		must.Check(t, must.Err(a.Put(ctx, "lease", []byte("a"), store.PutOptions{TTL: time.Hour, IfVersion: lease})),
			"the owner renews the lease")
		if got, err := b.ReadAfter(ctx, stream, 0); err != nil || len(got) != 1 || string(got[0]) != "entry" {
			t.Errorf("ReadAfter = %q, %v", got, err)
		}
		wantLost(t, a, subscription, "t")
	})
}
