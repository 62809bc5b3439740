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

// Replicas with different keys cannot read announcements, so any change is possible.
func TestAnnouncementsThatCannotBeReadBecomeAnyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := make([]byte, 32)
		other[0] = 1
		first, _, w := replicasWithSubscriber(t, store.NewMemory(store.MemoryOptions{}), make([]byte, 32), other)
		first.ResourceUpdated("note://b") // not subscribed
		w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"), updated(`1`, "note://a"))
	})
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

func TestAnnouncementsThatAreTooLongBecomeAnyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, w := replicasWithSubscriber(t, store.NewMemory(store.MemoryOptions{}))
		first.ResourceUpdated("note://" + strings.Repeat("x", store.MaxMessage))
		w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"), updated(`1`, "note://a"))
	})
}

// A replica that may have lost announcements notifies its clients of all changes that are possible.
func TestLostAnnouncementsAreReplacedByAllChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Memory: store.NewMemory(store.MemoryOptions{})}
		first, _, w := replicasWithSubscriber(t, bus)
		bus.down.Store(true)
		for i := range 2000 { // more than can wait to be published
			first.ResourceUpdated("note://" + strings.Repeat("x", i))
		}
		bus.down.Store(false)
		w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"), updated(`1`, "note://a"))
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

// lateBus needs a second to subscribe.
type lateBus struct{ *store.Memory }

func (b lateBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	time.Sleep(time.Second)
	return b.Memory.Subscribe(ctx, topic, queue)
}

func TestAServerThatServesReceivesTheAnnouncementsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := lateBus{store.NewMemory(store.MemoryOptions{})}
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
