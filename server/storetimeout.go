package server

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/store"
)

// storeTimeout is the time-out of each operation of Server.KV, Server.Log and Server.Bus, so that a store
// that does not answer cannot block requests.
const storeTimeout = 5 * time.Second

// boundKV returns kv with a time-out for each operation. Memory needs none.
func boundKV(kv store.KV) store.KV {
	if _, ok := kv.(*store.Memory); ok {
		return kv
	}
	return boundedKV{kv}
}

// boundLog returns log with a time-out for each operation. Memory needs none.
func boundLog(log store.Log) store.Log {
	if _, ok := log.(*store.Memory); ok {
		return log
	}
	return boundedLog{log}
}

// boundBus returns bus with a time-out for each operation. Memory needs none.
func boundBus(bus store.Bus) store.Bus {
	if _, ok := bus.(*store.Memory); ok {
		return bus
	}
	return boundedBus{bus}
}

type boundedKV struct{ kv store.KV }

func (b boundedKV) Get(ctx context.Context, key string) (store.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Get(ctx, key)
}

func (b boundedKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Put(ctx, key, value, opt)
}

func (b boundedKV) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Touch(ctx, key, ttl)
}

func (b boundedKV) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Delete(ctx, key)
}

func (b boundedKV) Add(ctx context.Context, set, member string, opt store.AddOptions) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Add(ctx, set, member, opt)
}

func (b boundedKV) Remove(ctx context.Context, set, member string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.Remove(ctx, set, member)
}

func (b boundedKV) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.kv.List(ctx, set, after, limit)
}

type boundedLog struct{ log store.Log }

func (b boundedLog) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.log.Append(ctx, key, seq, entry, opt)
}

func (b boundedLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.log.ReadAfter(ctx, key, seq)
}

func (b boundedLog) Drop(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.log.Drop(ctx, group)
}

type boundedBus struct{ bus store.Bus }

func (b boundedBus) Publish(ctx context.Context, topic string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.bus.Publish(ctx, topic, message)
}

func (b boundedBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.bus.Subscribe(ctx, topic, queue)
}
