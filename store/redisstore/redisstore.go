package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/store"
)

// Store is a [store.Store] on Redis. It is safe for concurrent use.
type Store interface {
	store.Store

	// Close waits for the operations in progress, at most for their time-outs, and closes all subscriptions and
	// connections. Later operations return an error.
	Close() error
}

type redisStore struct {
	client redis.UniversalClient
	prefix string
	bus    bus

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup // counts operations; Add only with mu held and closed false

	// waiting passes commands to the workers. It is nil in a cluster, where a server that does not answer must not
	// delay commands for the others. It has no buffer: a command whose context ends while it waits is not sent.
	waiting chan request
	workers sync.WaitGroup // Add only during an operation
}

// Open connects to Redis and checks its version and its configuration. The caller must close
// the Store. Errors wrap [ErrEviction] if Redis may evict items, and [ErrUnavailable] if it
// cannot be reached.
func Open(ctx context.Context, o Options) (Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &redisStore{client: o.client(), prefix: o.Prefix}
	if s.prefix == "" {
		s.prefix = DefaultPrefix
	}
	if !o.Cluster {
		s.waiting = make(chan request)
		for range o.conns() {
			s.workers.Go(s.work)
		}
	}
	// In Redis, all databases share their channels.
	s.bus.init(s.client, s.prefix+"b"+strconv.Itoa(o.DB)+":")
	if _, err := do(ctx, s, func(ctx context.Context) (any, error) { return nil, s.check(ctx, o) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close implements [Store].
func (s *redisStore) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.bus.close()
	err := s.client.Close() // ends the operations in progress
	s.active.Wait()
	if s.waiting != nil {
		close(s.waiting)
	}
	s.workers.Wait()
	if err != nil {
		return fmt.Errorf("redisstore: cannot close connections: %w", err)
	}
	return nil
}

// check checks each master.
func (s *redisStore) check(ctx context.Context, o Options) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return check(ctx, s.client, o)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		return check(ctx, c, o)
	})
}

func check(ctx context.Context, c redis.Cmdable, o Options) error {
	info, err := c.Info(ctx).Result()
	if err != nil {
		return explain(ctx, err)
	}
	version, policy := field(info, "redis_version"), field(info, "maxmemory_policy")
	mode := cmp.Or(field(info, "redis_mode"), field(info, "server_mode")) // the second name is Valkey's
	if major, _, _ := strings.Cut(version, "."); len(major) == 1 && major < "7" {
		return fmt.Errorf("redisstore: version of Redis must be 7 or newer, got %s", version)
	}
	switch {
	case mode == "sentinel":
		return errors.New("redisstore: the server is a Sentinel: set MasterName")
	case mode == "cluster" && !o.Cluster:
		return errors.New("redisstore: the server is in a cluster: set Cluster")
	}
	if !o.AllowEviction && policy != "noeviction" {
		return fmt.Errorf("%w, got %q, which deletes sessions and tasks: run CONFIG SET maxmemory-policy noeviction "+
			"and set it in redis.conf, or set AllowEviction", ErrEviction, policy)
	}
	return nil
}

// field returns a field of the answer to INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

// do runs an operation unless ctx has ended or the store is closed.
func do[T any](ctx context.Context, s *redisStore, operation func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return zero, errClosed
	}
	s.active.Add(1)
	s.mu.Unlock()
	defer s.active.Done()
	return operation(ctx)
}

const maxPipelined = 64 // commands that share a round trip

// request is a command that a caller waits for.
type request struct {
	command redis.Cmder
	done    chan struct{}
}

// process executes a command. It returns the error of ctx as soon as that ends; a command that was sent then ends on
// its own, at the latest after the time-outs of the network.
func (s *redisStore) process(ctx context.Context, command redis.Cmder) error {
	r := request{command, make(chan struct{})}
	if s.waiting == nil {
		s.workers.Go(func() { s.execute([]request{r}) })
	} else {
		select {
		case s.waiting <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-r.done:
		return command.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work executes the commands that wait, all in one pipeline, until the store is closed.
func (s *redisStore) work() {
	for r := range s.waiting {
		all := append(make([]request, 0, 8), r)
		for more := true; more && len(all) < maxPipelined; {
			select {
			case r, more = <-s.waiting:
				if more {
					all = append(all, r)
				}
			default:
				more = false
			}
		}
		s.execute(all)
	}
}

func (s *redisStore) execute(all []request) {
	ctx := context.Background()
	if len(all) == 1 {
		_ = s.client.Process(ctx, all[0].command)
	} else {
		pipeline := s.client.Pipeline()
		for _, r := range all {
			_ = pipeline.Process(ctx, r.command)
		}
		_, _ = pipeline.Exec(ctx)
	}
	for _, r := range all {
		close(r.done)
	}
}

// milliseconds rounds a time to live up.
func milliseconds(ttl time.Duration) string {
	ms := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(ms, 10)
}
