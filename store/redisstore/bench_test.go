//go:build integration

package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/store"
)

// BenchmarkStore compares operations with a GET of go-redis over the same number of
// connections, which is the baseline. It reports the CPU time that Redis needs for an operation.
// docs/program/scale.md has these figures.
func BenchmarkStore(b *testing.B) {
	var callers atomic.Int64
	for _, program := range programs {
		server := start(b, program)
		s := connect(b, at(server.addr))
		value := []byte(strings.Repeat("v", 512))
		if _, err := s.Put(ctx, "k", value, hour); err != nil {
			b.Fatal(err)
		}
		baseline := redis.NewClient(&redis.Options{Addr: server.addr, PoolSize: DefaultConns, Protocol: 2})
		b.Cleanup(func() { _ = baseline.Close() })
		limits := store.AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
		name := s.name(itemKind, "k")
		for _, operation := range []struct {
			name string
			do   func(ctx context.Context, caller int64, n uint64) error
		}{
			{"baseline", func(ctx context.Context, _ int64, _ uint64) error { return baseline.Get(ctx, name).Err() }},
			{"Get", func(ctx context.Context, _ int64, _ uint64) error { _, err := s.Get(ctx, "k"); return err }},
			{"Touch", func(ctx context.Context, _ int64, _ uint64) error { _, err := s.Touch(ctx, "k", time.Hour); return err }},
			{"Put", func(ctx context.Context, caller int64, _ uint64) error {
				_, err := s.Put(ctx, fmt.Sprint("k", caller), value, hour)
				return err
			}},
			{"Append", func(ctx context.Context, caller int64, n uint64) error {
				return s.Append(ctx, store.StreamKey{Group: fmt.Sprint("g", caller), Stream: "s"}, n, value, limits)
			}},
			{"Publish", func(ctx context.Context, _ int64, _ uint64) error { return s.Publish(ctx, "t", value) }},
			{"Publish to 10 replicas", func(ctx context.Context, _ int64, _ uint64) error { return s.Publish(ctx, "replicas", value) }},
		} {
			b.Run(program+"/"+operation.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
				if strings.HasSuffix(operation.name, "replicas") {
					subscribeReplicas(b, server, "replicas", 10)
				}
				before := cpuOf(b, server)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				b.RunParallel(func(pb *testing.PB) {
					caller := callers.Add(1)
					for n := uint64(1); pb.Next(); n++ {
						if err := operation.do(ctx, caller, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric((cpuOf(b, server)-before)*1e6/float64(b.N), "redis-µs/op")
			})
		}
	}
}

// cpuOf returns the CPU time of a server, in seconds.
func cpuOf(b *testing.B, s *server) (seconds float64) {
	info := s.command("info", "cpu").(string)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		part, err := strconv.ParseFloat(field(info, name), 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += part
	}
	return seconds
}

// subscribeReplicas subscribes n Stores to a topic, which receive and drop its messages.
func subscribeReplicas(b *testing.B, s *server, topic string, n int) {
	for range n {
		if _, err := connect(b, at(s.addr)).Subscribe(ctx, topic, 1); err != nil {
			b.Fatal(err)
		}
	}
}
