package server_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// unreliableBus fails while it is down.
type unreliableBus struct {
	*store.Memory
	down atomic.Bool
}

var errBusDown = errors.New("the bus is down")

func (b *unreliableBus) Publish(ctx context.Context, topic string, message []byte) error {
	if b.down.Load() {
		return errBusDown
	}
	return b.Memory.Publish(ctx, topic, message)
}

func (b *unreliableBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	if b.down.Load() {
		return nil, errBusDown
	}
	return b.Memory.Subscribe(ctx, topic, queue)
}

const listenToAll = `{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["note://a"]}`

// replicasWithSubscriber returns two replicas, and a client that has subscribed to changes at the second.
func replicasWithSubscriber(t *testing.T, bus store.Bus, keys ...[]byte) (first, second *server.Server, w *wiretest.Peer) {
	newReplica := func() *server.Server {
		s := changeable()
		s.Bus, s.Logger = bus, slog.New(slog.DiscardHandler)
		if len(keys) > 0 { // each replica has its own
			s.Keys, keys = keys[:1], keys[1:]
		}
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		return s
	}
	first, second = newReplica(), newReplica()
	if err := first.Check(); err != nil { // it serves from now on
		t.Fatal(err)
	}
	w = connect(t, second)
	w.Send(listenRequest(`1`, listenToAll))
	w.Expect(acknowledged(`1`, listenToAll))
	synctest.Wait()
	return first, second, w
}

func TestChangesAtOneReplicaReachTheClientsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, w := replicasWithSubscriber(t, store.NewMemory(store.MemoryOptions{}))
		first.ResourceUpdated("note://b") // not subscribed
		first.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a"))
		server.AddTool(first, newTool("new"), nothing)
		w.Expect(tagged(`1`, "tools/list_changed"))
		first.RemoveResource("note://a")
		w.Expect(tagged(`1`, "resources/list_changed"))

		onlyAda := server.VisibleTo(func(who principal.Principal, _ string) bool { return who != principal.Local })
		server.AddTool(first, newTool("hidden"), nothing, onlyAda)
		server.AddTool(second, newTool("hidden2"), nothing, onlyAda)
		server.AddTool(first, newTool("hidden2"), nothing) // the second replica knows who can see it
		time.Sleep(time.Second)
		second.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a")) // and nothing before it
	})
}

// Replicas with different keys cannot read announcements, some are too long, and others are lost. Any change is possible then,
// so the clients are notified of all.
func TestAnnouncementsThatDoNotArriveBecomeAnyChange(t *testing.T) {
	other := make([]byte, 32)
	other[0] = 1
	for name, c := range map[string]struct {
		keys   [][]byte
		change func(s *server.Server)
	}{
		"unreadable": {[][]byte{make([]byte, 32), other}, func(s *server.Server) { s.ResourceUpdated("note://b") }}, // not subscribed
		"too long":   {nil, func(s *server.Server) { s.ResourceUpdated("note://" + strings.Repeat("x", store.MaxMessage)) }},
		"too many": {nil, func(s *server.Server) {
			for i := range 2000 { // more than can wait to be published
				s.ResourceUpdated("note://" + strings.Repeat("x", i))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
				first, _, w := replicasWithSubscriber(t, bus, c.keys...)
				bus.down.Store(name == "too many")
				c.change(first)
				bus.down.Store(false)
				w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"), updated(`1`, "note://a"))
			})
		})
	}
}

func TestAnnouncementsAreRepeatedUntilTheBusIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
		first, _, w := replicasWithSubscriber(t, bus)
		bus.down.Store(true)
		first.ResourceUpdated("note://a")
		time.Sleep(time.Minute)
		bus.down.Store(false)
		w.Expect(updated(`1`, "note://a"))
	})
}

func TestAddingToolsWhileTheBusIsDownDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
		bus.down.Store(true)
		s := changeable()
		s.Bus, s.Logger = bus, slog.New(slog.DiscardHandler)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(listenRequest(`1`, `{"toolsListChanged":true}`))
		w.Expect(acknowledged(`1`, `{"toolsListChanged":true}`))
		started := time.Now()
		server.AddTool(s, mcp.Tool{Name: "new"}, nothing)
		w.Expect(tagged(`1`, "tools/list_changed"))
		if waited := time.Since(started); waited > 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestAServerThatServesReceivesTheAnnouncementsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newHookedStore(func(_ context.Context, op, _ string, _ []byte) error {
			if op == "subscribe" {
				time.Sleep(time.Second)
			}
			return nil
		})
		first, second := changeable(), changeable()
		first.Bus, second.Bus = bus, bus
		defer first.Shutdown(t.Context())
		defer second.Shutdown(t.Context())
		if err := first.Check(); err != nil {
			t.Fatal(err)
		}
		w := connect(t, second)
		w.Send(listenRequest(`1`, listenToAll))
		w.Expect(acknowledged(`1`, listenToAll))
		first.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a"))
	})
}
