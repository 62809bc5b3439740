//go:build integration

package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/store"
)

// BenchmarkStore compares operations with a GET of go-redis over the same number of
// connections, which is the baseline.
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
		} {
			b.Run(program+"/"+operation.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
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
			})
		}
	}
}
