package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/store"
)

// replicas connects a server with the other replicas that share its Bus. It has no effect before start
// and without a Bus.
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
			messages, err := r.bus.Subscribe(ctx, topic, store.MaxQueue)
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
func (r *replicas) receive(ctx context.Context, topic string, messages *store.Subscription, err error, lost func(), deliver func(ctx context.Context, data []byte)) {
	for first := true; ; first = false {
		if !first {
			messages, err = r.bus.Subscribe(ctx, topic, store.MaxQueue)
		}
		if err != nil {
			if ctx.Err() == nil {
				r.server.logger().ErrorContext(ctx, "cannot receive from other replicas", "topic", topic, "error", err)
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
						r.unreadable.Log(ctx, r.server.logger(), slog.LevelError, "cannot read a message of another replica: the replicas must have the same Keys", slog.String("topic", topic))
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
		if ctx.Err() != nil {
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
