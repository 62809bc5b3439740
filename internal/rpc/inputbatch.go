package rpc

import (
	"context"
	"encoding/json"
	"sync"
)

// InputBatch has the input requests of one result of a server, whose handlers run concurrently. The handlers that forward
// them to a client send them together and with the server's keys. It is safe for concurrent use.
type InputBatch struct {
	mu       sync.Mutex
	pending  int // handlers that have neither joined nor ended
	requests []InputRequest
	ready    chan struct{} // closed when pending is 0

	send    sync.Once
	answers []json.RawMessage
	err     error
}

// NewInputBatch returns a batch for n handlers, at least one.
func NewInputBatch(n int) *InputBatch { return &InputBatch{pending: n, ready: make(chan struct{})} }

type inputBatchKey struct{}

// batchMember is the place of a handler in a batch.
type batchMember struct {
	batch *InputBatch
	key   string
	left  sync.Once
}

// Handler returns the context of one of the handlers. The client receives the request with the key, which must be unique in
// the call. The caller must call end when the handler has ended.
func (b *InputBatch) Handler(ctx context.Context, key string) (_ context.Context, end func()) {
	m := &batchMember{batch: b, key: key}
	return context.WithValue(ctx, inputBatchKey{}, m), func() { m.leave(nil) }
}

// leave records that the handler has ended, or that it forwards a request. It returns the index of the request, or -1 if
// the handler has left before.
func (m *batchMember) leave(q *InputRequest) (index int) {
	index = -1
	m.left.Do(func() {
		b := m.batch
		b.mu.Lock()
		defer b.mu.Unlock()
		if q != nil {
			index = len(b.requests)
			b.requests = append(b.requests, *q)
		}
		if b.pending--; b.pending == 0 {
			close(b.ready)
		}
	})
	return index
}

// ForwardInput sends an input request to the client of a call, and returns the response. If ctx is that of a handler of a
// batch, the first request waits for those of the other handlers.
func (c *Call) ForwardInput(ctx context.Context, q InputRequest) (json.RawMessage, error) {
	m, _ := ctx.Value(inputBatchKey{}).(*batchMember)
	index := -1
	if m != nil {
		first := q
		first.Key = m.key
		index = m.leave(&first)
	}
	if index < 0 {
		answers, err := c.RequestInput(ctx, q)
		if err != nil {
			return nil, err
		}
		return answers[0], nil
	}
	b := m.batch
	select {
	case <-b.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.send.Do(func() { b.answers, b.err = c.RequestInput(ctx, b.requests...) })
	if b.err != nil {
		return nil, b.err
	}
	return b.answers[index], nil
}
