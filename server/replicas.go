package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// replicas connects a server with the other replicas that share its Store. It has no effect before start
// and without a Store.
type replicas struct {
	server *Server
	bus    store.Bus
	origin string // identifies this replica in messages

	unreadable loglimit.Limiter // lines about messages that no key decrypts

	changes  outbox[announcement]
	streams  outbox[streamMessage]
	sessions outbox[sessionMessage]

	delivering chan struct{} // has an element for each message that deliver passes on

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// replicaRetry is the time between two attempts to reach the Bus.
const replicaRetry = 2 * time.Second

// start begins to send and receive. It returns after the first attempt to subscribe to each topic.
func (r *replicas) start(s *Server, bus store.Bus) {
	r.server, r.bus, r.origin, r.delivering = s, bus, rand.Text(), make(chan struct{}, maxDelivering)
	r.changes.open(maxAnnouncements, announcement{All: true})
	r.streams.open(maxStreamMessages, streamMessage{})
	r.sessions.open(maxSessionMessages, sessionMessage{})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.running.Go(func() { r.publishAnnouncements(ctx) })
	r.running.Go(func() { r.publishStreams(ctx) })
	r.running.Go(func() { r.publishSessions(ctx) })
	// A server that serves must miss no message unless the Bus is down.
	var subscribing sync.WaitGroup
	subscribe := func(topic string, lost func(), deliver func(ctx context.Context, data []byte)) {
		subscribing.Add(1)
		r.running.Go(func() {
			messages, err := r.bus.Subscribe(ctx, topic, storecheck.MaxQueue)
			subscribing.Done()
			r.receive(ctx, topic, messages, err, lost, deliver)
		})
	}
	subscribe(changesTopic, s.resyncAll, r.receiveAnnouncement)
	subscribe(sessionsTopic, func() { r.refreshAll(ctx) }, r.receiveSession)
	subscribe(streamsTopic, s.core.http.Streams.WakeAll, r.receiveStream)
	subscribe(messagesTopic, r.lostMessages, r.receiveForwarded)
	subscribing.Wait()
}

// stop waits for the goroutines. Changes that are not announced yet are lost.
func (r *replicas) stop() {
	if r.cancel != nil {
		r.cancel()
		r.running.Wait()
	}
}

// publish publishes a message as JSON. It encrypts the message if the server has keys: the URI of a
// resource, for example, may be private.
func (r *replicas) publish(ctx context.Context, topic string, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(r.server.Keys) > 0 {
		raw = r.server.core.seals.SealBytes(busPurpose+topic, raw)
	}
	return r.bus.Publish(ctx, topic, raw)
}

const busPurpose = "message on "

// open decrypts a message that publish has published.
func (r *replicas) open(topic string, data []byte) ([]byte, error) {
	if len(r.server.Keys) == 0 {
		return data, nil
	}
	raw, _, err := r.server.core.seals.OpenBytes(busPurpose+topic, data)
	return raw, err
}

// receive passes the messages of a topic to deliver until ctx ends. Messages and err are the results of the
// first attempt to subscribe. It calls lost when messages may have been lost.
func (r *replicas) receive(
	ctx context.Context, topic string, messages *store.Subscription, err error, lost func(),
	deliver func(ctx context.Context, data []byte),
) {
	for first := true; ; first = false {
		if !first {
			messages, err = r.bus.Subscribe(ctx, topic, storecheck.MaxQueue)
		}
		if err != nil {
			if ctx.Err() == nil {
				r.server.logger().ErrorContext(ctx, "cannot receive messages from the other replicas", "topic", topic,
					"error", err)
			}
			if !sleep(ctx, replicaRetry) {
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
					data, err := r.open(topic, m.Data)
					if err != nil {
						r.unreadable.Log(ctx, r.server.logger(), slog.LevelError,
							"cannot decrypt a message from another replica: all replicas need the same Keys",
							slog.String("topic", topic))
						lost()
						continue
					}
					deliver(ctx, data)
				}
			case <-ctx.Done():
				open = false
			}
		}
		messages.Close()
		if !sleep(ctx, replicaRetry) { // a Bus that has ended ends every subscription at once
			return
		}
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

// outbox holds the messages to other replicas that wait to be published, each once. Before open it drops
// them. It is safe for concurrent use.
type outbox[T comparable] struct {
	mu      sync.Mutex
	max     int
	instead T              // replaces all messages when the outbox is full
	pending map[T]struct{} // nil before open
	wake    chan struct{}
}

func (o *outbox[T]) open(limit int, instead T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.max, o.instead, o.pending, o.wake = limit, instead, make(map[T]struct{}), make(chan struct{}, 1)
}

func (o *outbox[T]) add(message T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending == nil {
		return
	}
	if len(o.pending) >= o.max {
		clear(o.pending)
		message = o.instead
	}
	o.pending[message] = struct{}{}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox[T]) take() map[T]struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.pending
	o.pending = make(map[T]struct{})
	return all
}

// publish passes the messages to send until ctx ends. After an error it calls failed, pauses, and sends the
// message that failed returns, if repeat is set.
func (o *outbox[T]) publish(
	ctx context.Context, send func(context.Context, T) error, failed func(T, error) (again T, repeat bool),
) {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
		for message := range o.take() {
			err := send(ctx, message)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if again, repeat := failed(message, err); repeat {
				o.add(again)
			}
			if !sleep(ctx, replicaRetry) {
				return
			}
		}
	}
}

// changesTopic is the topic of the Bus on which replicas announce changes to each other.
const changesTopic = "server/changes"

// maxAnnouncements limits the announcements that wait. Above it they become one of any change.
const maxAnnouncements = 1024

// announcement is a change of a list or a resource at one replica, for the others.
type announcement struct {
	Kind   changes.Kind `json:"k,omitzero"`
	Name   string       `json:"n,omitzero"` // of the entry that was added or removed
	Hidden bool         `json:"h,omitzero"` // the entry has VisibleTo
	URI    string       `json:"u,omitzero"` // of a resource that was updated
	All    bool         `json:"a,omitzero"` // any list and resource may have changed
	Caller string       `json:"c,omitzero"` // the key of the only principal that may learn of it; empty for all
	Again  bool         `json:"r,omitzero"` // of a replica that had the previous lists of Caller
	// Callers are the digests of the only principals that may learn of it, at most maxDigests with spaces between them;
	// empty for all.
	Callers string `json:"d,omitzero"`
}

type announcementMessage struct {
	Origin string `json:"o"`
	announcement
}

// publish notifies the clients of an audience who have c of a change, here and at the other replicas. A nil audience
// is every caller.
func (s *Server) publish(c *Catalog, change announcement, audience func(principal.Principal) bool) {
	s.changes.PublishTo(s.audienceOf(c, audience), changes.Change{Kind: change.Kind, URI: change.URI})
	switch {
	case c == &s.Catalog:
		s.replicas.announce(change)
	case s.Store != nil:
		concerns := func(who principal.Principal) bool { return audience == nil || audience(who) }
		for some := range slices.Chunk(s.holders.digests(c, concerns), maxDigests) {
			s.replicas.announce(announcement{Kind: change.Kind, URI: change.URI, Callers: strings.Join(some, " ")})
		}
	}
}

const maxDigests = 256 // callers of an announcement

// publishTo is publish for one caller, whatever catalogs the caller has.
func (s *Server) publishTo(caller principal.Principal, change changes.Change) {
	s.publish(&s.Catalog, announcement{Kind: change.Kind, URI: change.URI, Caller: caller.Key()},
		func(who principal.Principal) bool { return who == caller })
}

// announce notifies the other replicas of a change. It does not block.
func (r *replicas) announce(c announcement) { r.changes.add(c) }

// publishAnnouncements publishes announcements until ctx ends. It repeats those that fail.
func (r *replicas) publishAnnouncements(ctx context.Context) {
	r.changes.publish(ctx, func(ctx context.Context, c announcement) error {
		return r.publish(ctx, changesTopic, announcementMessage{r.origin, c})
	}, func(c announcement, err error) (announcement, bool) {
		if errors.Is(err, store.ErrInvalidArgument) { // a URI that is too long for a message
			c = announcement{All: true}
		}
		r.server.logger().ErrorContext(ctx, "cannot tell the other replicas about a change; trying again", "error", err)
		return c, true
	})
}

// receiveAnnouncement notifies the clients of this replica of a change at another.
func (r *replicas) receiveAnnouncement(_ context.Context, data []byte) {
	var c announcementMessage
	if jsonv2.Unmarshal(data, &c) == nil && c.Origin != r.origin {
		r.server.apply(c.announcement)
	}
}

// resyncAll notifies the clients of this replica that anything may have changed.
func (s *Server) resyncAll() {
	if s.CatalogsOutdated != nil {
		s.CatalogsOutdated(func(principal.Principal) bool { return true })
	}
	s.changes.ResyncAll()
}

// apply notifies the clients of this replica of a change at another.
func (s *Server) apply(c announcement) {
	if c.Callers != "" {
		digests := strings.Fields(c.Callers)
		s.changes.PublishTo(func(who principal.Principal) bool { return slices.Contains(digests, shortDigest(who)) },
			changes.Change{Kind: c.Kind, URI: c.URI})
		return
	}
	if c.Caller != "" {
		is := func(who principal.Principal) bool { return who.Key() == c.Caller }
		if s.CatalogsOutdated != nil && c.URI == "" && !c.Again && s.CatalogsOutdated(is) {
			// A client that was notified before may have got the previous lists of this replica.
			again := c
			again.Again = true
			s.replicas.announce(again)
		}
		s.changes.PublishTo(is, changes.Change{Kind: c.Kind, URI: c.URI})
		return
	}
	var e entry
	var known bool
	switch c.Kind {
	case changes.ToolsChanged:
		e, known = s.tools.get(c.Name)
	case changes.PromptsChanged:
		e, known = s.prompts.get(c.Name)
	case changes.ResourcesChanged:
		if e, known = s.resources.get(c.Name); !known {
			e, known = s.templates.get(c.Name)
		}
	case changes.ResourceUpdated:
		s.changes.PublishTo(s.readersOf(c.URI), changes.Change{Kind: c.Kind, URI: c.URI})
		return
	default:
		if c.All {
			s.resyncAll()
		}
		return
	}
	switch {
	case known:
		s.changes.PublishTo(e.audience(), changes.Change{Kind: c.Kind})
	case !c.Hidden: // otherwise it is not known here who may learn of it
		s.changes.Publish(changes.Change{Kind: c.Kind})
	}
}
