package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/store"
)

// changesTopic is the topic of the Bus on which replicas announce changes to each other.
const changesTopic = "server/changes"

const (
	maxAnnouncements = 1024 // that wait to be published; then all is announced as changed
	announceRetry    = 2 * time.Second
)

// announcement is a change of a list or a resource at one replica, for the others.
type announcement struct {
	Kind   rpc.ChangeKind `json:"k,omitzero"`
	Name   string         `json:"n,omitzero"` // of the entry that was added or removed
	Hidden bool           `json:"h,omitzero"` // the entry has VisibleTo
	URI    string         `json:"u,omitzero"` // of a resource that was updated
	All    bool           `json:"a,omitzero"` // any list and resource may have changed
}

// announcer publishes the changes at this replica and receives those at the others. It has no effect
// before start and without a Bus.
type announcer struct {
	server *Server
	bus    store.Bus
	origin string // identifies this replica in messages

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	pending map[announcement]struct{}
	wake    chan struct{}
}

type announcementMessage struct {
	Origin string `json:"o"`
	announcement
}

func (a *announcer) start(s *Server, bus store.Bus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server, a.bus, a.origin = s, bus, rand.Text()
	a.pending, a.wake = make(map[announcement]struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.running.Go(func() { a.publish(ctx) })
	a.running.Go(func() { a.receive(ctx) })
	a.running.Go(func() { s.receiveForwarded(ctx, bus, a.origin) })
}

// stop waits for the goroutines. Changes that are not published yet are lost.
func (a *announcer) stop() {
	if a.cancel != nil {
		a.cancel()
		a.running.Wait()
	}
}

// announce tells the other replicas of a change. It does not block.
func (a *announcer) announce(c announcement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bus == nil {
		return
	}
	if len(a.pending) >= maxAnnouncements {
		clear(a.pending)
		c = announcement{All: true}
	}
	a.pending[c] = struct{}{}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *announcer) take() map[announcement]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.pending
	a.pending = make(map[announcement]struct{})
	return all
}

// publish publishes announcements until ctx ends. It repeats those that fail.
func (a *announcer) publish(ctx context.Context) {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		for c := range a.take() {
			raw, err := json.Marshal(announcementMessage{a.origin, c})
			if err == nil {
				err = a.bus.Publish(ctx, changesTopic, raw)
			}
			if err == nil || ctx.Err() != nil {
				continue
			}
			a.server.logger().ErrorContext(ctx, "cannot announce a change to the other replicas", "error", err)
			a.announce(c)
			if !sleep(ctx, announceRetry) {
				return
			}
		}
	}
}

// receive notifies the clients of this replica of the changes at the others until ctx ends.
func (a *announcer) receive(ctx context.Context) {
	receiveTopic(ctx, a.bus, changesTopic, a.server.logger(), a.server.changes.ResyncAll, func(data []byte) {
		var c announcementMessage
		if jsonv2.Unmarshal(data, &c) == nil && c.Origin != a.origin {
			a.server.apply(c.announcement)
		}
	})
}

// receiveTopic passes the messages of a topic to deliver until ctx ends. It calls lost when messages
// may have been lost.
func receiveTopic(ctx context.Context, bus store.Bus, topic string, logger *slog.Logger, lost func(), deliver func(data []byte)) {
	for first := true; ; first = false {
		messages, err := bus.Subscribe(ctx, topic, store.MaxQueue)
		if err != nil {
			if ctx.Err() == nil {
				logger.ErrorContext(ctx, "cannot receive from other replicas", "topic", topic, "error", err)
			}
			if !sleep(ctx, announceRetry) {
				return
			}
			continue
		}
		if !first {
			lost()
		}
		for open := true; open; {
			var m store.Message
			select {
			case m, open = <-messages.C:
				switch {
				case !open:
				case m.Lost:
					lost()
				default:
					deliver(m.Data)
				}
			case <-ctx.Done():
				open = false
			}
		}
		messages.Close()
		if ctx.Err() != nil {
			return
		}
	}
}

// apply notifies the clients of this replica of a change at another.
func (s *Server) apply(c announcement) {
	var e entry
	var known bool
	switch c.Kind {
	case rpc.ToolsChanged:
		e, known = s.tools.get(c.Name)
	case rpc.PromptsChanged:
		e, known = s.prompts.get(c.Name)
	case rpc.ResourcesChanged:
		if e, known = s.resources.get(c.Name); !known {
			e, known = s.templates.get(c.Name)
		}
	case rpc.ResourceUpdated:
		s.changes.PublishTo(s.readersOf(c.URI), rpc.Change{Kind: c.Kind, URI: c.URI})
		return
	default:
		if c.All {
			s.changes.ResyncAll()
		}
		return
	}
	switch {
	case known:
		s.changes.PublishTo(e.audience(), rpc.Change{Kind: c.Kind})
	case !c.Hidden: // otherwise it is not known here who may learn of it
		s.changes.Publish(rpc.Change{Kind: c.Kind})
	}
}

// sleep waits and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
