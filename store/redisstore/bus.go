package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/internal/topics"
	"github.com/parley-mcp/parley/store"
)

// subscribeTimeout limits how long Subscribe waits for Redis.
const subscribeTimeout = 10 * time.Second

// bus contains all subscriptions of a Store, on one connection.
//
// Subscribe and Close only record which topics are wanted. The goroutine write sends the
// commands for them, and the goroutine read receives the answers and messages. That way,
// the commands of a topic are sent in order, and no lock is held during I/O.
type bus struct {
	client redis.UniversalClient
	prefix string
	local  topics.Topics[store.Message]

	mu      sync.Mutex
	topics  map[string]*topic
	changes []string      // names of the dirty topics
	changed chan struct{} // signals that there may be changes
	failure error         // error of the latest connection that failed
	stop    context.CancelFunc
	ended   chan struct{} // closed when the goroutines have ended; nil before they begin
	closed  chan struct{} // closed by close

	timeout, silence, ping time.Duration // see subscribeTimeout, silenceTimeout and pingInterval
}

// topic is the state of one topic. It is in the map while it has subscriptions or Redis may
// still send something for it.
type topic struct {
	subscriptions int
	dirty         bool // the topic is in changes
	subscribed    bool // the last command on this connection was SUBSCRIBE
	awaited       int  // pending answers to SUBSCRIBE on this connection
	active        bool // Redis sends messages of the topic
	gap           bool // messages may have been lost since the topic was last active
	ready         chan struct{}
}

func (b *bus) init(client redis.UniversalClient, prefix string) {
	b.client, b.prefix, b.local.Lost = client, prefix, store.Message{Lost: true}
	b.topics = make(map[string]*topic)
	b.changed = make(chan struct{}, 1)
	b.closed = make(chan struct{})
	b.timeout, b.silence, b.ping = subscribeTimeout, silenceTimeout, pingInterval
}

// Publish implements [store.Bus].
func (s *redisStore) Publish(ctx context.Context, topic string, message []byte) error {
	if err := storecheck.Publish(topic, message); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	text := string(message) // a copy: the operation may continue after ctx has ended
	_, err := do(ctx, s, func(ctx context.Context) (any, error) {
		command := redis.NewCmd(ctx, "publish", s.bus.prefix+topic, text)
		// In a cluster, one server publishes all messages of a topic, which keeps their order.
		command.SetFirstKeyPos(1)
		return once(ctx, s, command)
	})
	return err
}

// Subscribe implements [store.Bus]. It waits at most 10 seconds for Redis.
func (s *redisStore) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	if err := storecheck.Subscribe(topic, queue); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.bus.subscribe(ctx, topic, queue)
}

func (b *bus) subscribe(ctx context.Context, name string, queue int) (*store.Subscription, error) {
	// The local subscription comes first: it receives messages as soon as Redis sends
	// them.
	s := b.local.Subscribe(name, queue, func() { b.release(name) })
	ready, err := b.acquire(name)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(b.timeout)
	defer timeout.Stop()
	select {
	case <-ready:
		return store.NewSubscription(s.C, s.Close), nil
	case <-ctx.Done():
		if err = ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", err, b.reason())
		}
	case <-b.closed:
		err = errClosed
	case <-timeout.C:
		err = b.reason()
	}
	s.Close()
	return nil, err
}

// reason returns why Redis does not send messages.
func (b *bus) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure != nil {
		return fmt.Errorf("cannot subscribe: %w", explain(context.Background(), b.failure))
	}
	return fmt.Errorf("%w: cannot subscribe in time", ErrUnavailable)
}

// acquire counts a subscription to a topic. It returns a channel that is closed when Redis
// sends messages of the topic.
func (b *bus) acquire(name string) (<-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return nil, errClosed
	default:
	}
	if b.ended == nil {
		ctx, stop := context.WithCancel(context.Background())
		b.stop, b.ended = stop, make(chan struct{})
		go b.serve(ctx, b.ended)
	}
	t := b.topics[name]
	if t == nil {
		t = &topic{ready: make(chan struct{})}
		b.topics[name] = t
	}
	t.subscriptions++
	b.mark(name, t)
	return t.ready, nil
}

func (b *bus) release(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[name]; t != nil {
		t.subscriptions--
		b.mark(name, t)
	}
}

// mark makes write look at a topic. mu must be held.
func (b *bus) mark(name string, t *topic) {
	if !t.dirty {
		t.dirty = true
		b.changes = append(b.changes, name)
	}
	b.wake()
}

func (b *bus) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *bus) close() {
	b.mu.Lock()
	close(b.closed)
	ended := b.ended
	if ended != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.local.Close()
	if ended != nil {
		<-ended
	}
}
