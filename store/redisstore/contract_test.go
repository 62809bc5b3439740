//go:build integration

package redisstore

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs each connection that fails
	goleak.VerifyTestMain(settled{m})
}

// settled waits for the goroutines of closed clients: while Redis is down, one of go-redis tries to connect, and sees
// only at its next attempt, after a second or a time-out, that its client is closed. goleak waits for half a second.
type settled struct{ *testing.M }

func (s settled) Run() int {
	code := s.M.Run()
	for end := time.Now().Add(patience); goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

// replicas spreads operations over the Stores of two replicas. Its clock can be advanced: all times to live are scale
// times longer, so that real time does not matter, and Advance shortens the times to live of the keys in Redis.
type replicas struct {
	t      *testing.T
	prefix string
	nodes  []*server
	stores [2]*redisStore
	turn   atomic.Uint32
}

const scale = 1000

func scaled(ttl time.Duration) time.Duration {
	if ttl > math.MaxInt64/scale {
		return math.MaxInt64
	}
	return ttl * scale
}

var prefixes atomic.Uint32

// openReplicas returns new replicas with a separate prefix.
func openReplicas(t *testing.T, o Options, nodes ...*server) *replicas {
	o.Prefix = fmt.Sprintf("test%d:", prefixes.Add(1))
	return &replicas{t: t, prefix: o.Prefix, nodes: nodes, stores: [2]*redisStore{connect(t, o), connect(t, o)}}
}

// Advance implements storetest.Clock.
func (r *replicas) Advance(d time.Duration) {
	for _, node := range r.nodes {
		for _, key := range node.keys(r.prefix) {
			node.command("eval", `
				redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) - ARGV[1])
				if redis.call('TYPE', KEYS[1]).ok == 'zset' and ARGV[2] == 'x' then
					for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
						redis.call('ZINCRBY', KEYS[1], -ARGV[1], member)
					end
				end`, 1, key, scaled(d).Milliseconds(), strings.TrimPrefix(key, r.prefix)[:1])
		}
	}
}

func (r *replicas) next() *redisStore { return r.stores[r.turn.Add(1)%2] }

func (r *replicas) Get(ctx context.Context, key string) (store.Item, error) {
	return r.next().Get(ctx, key)
}

func (r *replicas) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	opt.TTL = scaled(opt.TTL)
	return r.next().Put(ctx, key, value, opt)
}

func (r *replicas) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	return r.next().Touch(ctx, key, scaled(ttl))
}

func (r *replicas) Delete(ctx context.Context, key string) error { return r.next().Delete(ctx, key) }

func (r *replicas) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	return r.next().Add(ctx, set, member, scaled(ttl), limit)
}

func (r *replicas) Remove(ctx context.Context, set, member string) error {
	return r.next().Remove(ctx, set, member)
}

func (r *replicas) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	return r.next().List(ctx, set, after, limit)
}

func (r *replicas) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	opt.TTL = scaled(opt.TTL)
	return r.next().Append(ctx, key, seq, entry, opt)
}

func (r *replicas) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	return r.next().ReadAfter(ctx, key, seq)
}

func (r *replicas) Drop(ctx context.Context, group string) error { return r.next().Drop(ctx, group) }

func (r *replicas) Publish(ctx context.Context, topic string, message []byte) error {
	return r.next().Publish(ctx, topic, message)
}

func (r *replicas) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	return r.next().Subscribe(ctx, topic, queue)
}

func runContract(t *testing.T, o Options, nodes ...*server) {
	t.Run("KV", func(t *testing.T) {
		storetest.RunKV(t, func(t *testing.T) store.KV { return openReplicas(t, o, nodes...) })
	})
	t.Run("Set", func(t *testing.T) {
		storetest.RunSet(t, func(t *testing.T) store.Set { return openReplicas(t, o, nodes...) })
	})
	t.Run("Log", func(t *testing.T) {
		storetest.RunLog(t, func(t *testing.T) store.Log { return openReplicas(t, o, nodes...) })
	})
	t.Run("Bus", func(t *testing.T) {
		storetest.RunBus(t, func(t *testing.T) store.Bus { return openReplicas(t, o, nodes...) })
	})
	for _, node := range nodes {
		node.everyKeyExpires()
	}
}

func TestStoreFulfilsContract(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		runContract(t, at(s.addr), s)
	})
}

func TestStoreFulfilsContractInCluster(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		nodes := cluster(t, program)
		runContract(t, inCluster(nodes), nodes...)
	})
}

func TestFullRedisFulfilsContract(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		storetest.RunKVFull(t, func(t *testing.T) store.KV {
			s.limitMemory(1 << 20)
			return openReplicas(t, at(s.addr), s)
		})
	})
}

// What a server has stored for one principal does not exist for any other principal.
func TestStoredThingsDoNotExistForOtherPrincipals(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		o := at(start(t, program).addr)
		replicatest.Principals(t, connect(t, o), connect(t, o), replicatest.Tokens())
	})
}
