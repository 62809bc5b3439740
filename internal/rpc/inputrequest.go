package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Replayer is an InputRequester that runs the handler again for each response.
type Replayer interface {
	InputRequester
	// Answered reports whether the response is there, if r is the next request.
	Answered(r InputRequest) bool
}

// Parker is an InputRequester whose calls can be parked: the handler of a parked call goes on while
// its client answers, and another request of the client takes the call up again.
type Parker interface {
	InputRequester
	// Parked returns the id with which an earlier request has parked the call, and the answers that
	// this request brings. The id is empty for a call that is not parked.
	Parked() (id string, answers map[string]json.RawMessage)
	// Park ends the request with the questions of a parked call. The handler of the request must return.
	Park(id string, questions mcp.InputRequests)
}

// InputHandler handles an input request on the client. The error is for the server, which
// receives a *jsonrpc.Error unchanged.
type InputHandler func(ctx context.Context, method string, params json.RawMessage) (response json.RawMessage, err error)

// RejectedInputError is the error of an InputHandler for a request that the program does not allow.
type RejectedInputError struct {
	Wire *jsonrpc.Error // for the server
	Err  error          // for the caller of the request for which the server has requested input
}

// Error returns the text for the server.
func (e *RejectedInputError) Error() string { return e.Wire.Error() }

// As sets a target of type **jsonrpc.Error to the error for the server.
func (e *RejectedInputError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = e.Wire
	}
	return ok
}

// Unwrap returns the error for the caller.
func (e *RejectedInputError) Unwrap() error { return e.Err }

// MayRequestInput reports whether a server may request input while it serves a method
// (2026-07-28, basic/patterns/mrtr, Supported Requests).
func MayRequestInput(method string) bool {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		return true
	}
	return false
}

// CheckRoots returns an error unless all roots have file URIs with an absolute path (client/roots, Data Types).
func CheckRoots(roots []mcp.Root) error {
	for i, root := range roots {
		u, err := url.Parse(root.URI)
		if err != nil || !strings.HasPrefix(root.URI, "file://") || !strings.HasPrefix(u.Path, "/") {
			return fmt.Errorf("root %d must be a file:// URI with an absolute path, not %.40q", i, root.URI)
		}
	}
	return nil
}

// RequestInput sends all requests at the same time to the call's client, and returns the responses in their order.
func (c *Call) RequestInput(ctx context.Context, requests ...InputRequest) ([]json.RawMessage, error) {
	if !MayRequestInput(c.Method()) {
		return nil, ErrCannotAsk
	}
	c.mu.Lock()
	ended := c.ended()
	c.mu.Unlock()
	switch {
	case ended != nil:
		return nil, ended
	case c.InputRequester == nil:
		return nil, ErrCannotAsk
	}
	for i := range requests {
		q := &requests[i]
		var err error
		if q.Params, err = revision.DowngradeQuestion(c.Revision(), c.Peer().Capabilities, q.Method,
			q.Params); err != nil {
			return nil, err
		}
	}
	defer c.beginAsking()()
	return c.InputRequester.RequestInput(ctx, c, requests)
}

// Answered reports whether the response to a request is there because the handler has sent it
// in an earlier run. It is false in revisions that run the handler once.
func (c *Call) Answered(r InputRequest) bool {
	replayer, ok := c.InputRequester.(Replayer)
	return ok && replayer.Answered(r)
}

// Digest identifies the content of an input request. An answer to another content does not count.
func (q InputRequest) Digest() string { return digest.Join([]byte(q.Method), q.Params) }

// InputKeys assigns keys to the input requests of one run of a handler. Another run that makes the
// same requests in the same order gets the same keys. The zero value is for a new run.
type InputKeys struct {
	used map[string]bool
	same map[string]int // how often a request without a key was made, by digest
}

// Take returns the key of an input request, and generates one if it has none. The keys of a run must be unique. Known
// returns the digest of the request of an earlier run with a key, or "". If it is another request, the key is not used
// again: for the client, a key means one request (2026-07-28, basic/patterns/mrtr; tasks extension, Input Requests).
func (k *InputKeys) Take(q InputRequest, known func(key string) (digest string)) (string, error) {
	key := k.Next(q, known)
	given := cmp.Or(q.Key, key)
	if k.used == nil {
		k.used, k.same = make(map[string]bool), make(map[string]int)
	}
	if k.used[given] {
		return "", fmt.Errorf("the key %q is used for two input requests of this call: choose another key", given)
	}
	if q.Key == "" {
		k.same[q.Digest()]++
	}
	k.used[given], k.used[key] = true, true
	return key, nil
}

// Used reports whether an input request of this run has the key.
func (k *InputKeys) Used(key string) bool { return k.used[key] }

// Next returns the key that Take would return for q.
func (k *InputKeys) Next(q InputRequest, known func(key string) (digest string)) string {
	sum := q.Digest()
	if q.Key != "" {
		if before := known(q.Key); before == "" || before == sum {
			return q.Key
		}
		return q.Key + "-" + sum[:12]
	}
	return q.Method + "-" + sum[:12] + "-" + strconv.Itoa(k.same[sum]+1)
}

// InputBatch contains the input requests of one result of a server, whose handlers run concurrently. The handlers that
// forward them to a client send them together and with the server's keys. It is safe for concurrent use.
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

// Handler returns the context of one of the handlers. The client receives the request with the key, which must be
// unique in the call. The caller must call end when the handler has ended.
func (b *InputBatch) Handler(ctx context.Context, key string) (_ context.Context, end func()) {
	m := &batchMember{batch: b, key: key}
	return context.WithValue(ctx, inputBatchKey{}, m), func() { m.leave(nil) }
}

// leave records that the handler has ended, or that it forwards a request. It returns the index of the request, or -1
// if the handler has left before.
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

// ForwardInput sends an input request to the client of a call, and returns the response. If ctx is that of a handler of
// a batch, the first request waits for those of the other handlers.
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
