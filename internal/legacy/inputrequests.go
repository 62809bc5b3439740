package legacy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// How long a client may take to answer. People take their time.
const (
	elicitTimeout = 10 * time.Minute
	sampleTimeout = 2 * time.Minute
	rootsTimeout  = 30 * time.Second
)

// asks is the requests that one session has put to its client. In this era a
// question is a live request, sent on the stream of the call that asks
// (2025-11-25, basic/transports, Sending Messages to the Server).
type inputRequests struct {
	ids    atomic.Int64
	mu     sync.Mutex
	open   map[*rpc.Outbound]struct{}
	asking chan struct{} // closed while open holds any; made when first needed
}

// begin begins the ids where the session has not been before: one that is made
// anew from its state must not use an id twice.
func (a *inputRequests) seedIDs() { a.ids.Store(time.Now().UnixMicro()) }

var _ rpc.Asker = (*inputRequests)(nil)

// Ask implements call.Asker.
func (a *inputRequests) Ask(ctx context.Context, c *rpc.Call, questions []rpc.Question) ([]json.RawMessage, error) {
	out := &rpc.Outbound{Wire: streamWire{c}, CancelNotice: true, IDs: &a.ids}
	a.add(out)
	defer a.remove(out)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]json.RawMessage, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		wg.Go(func() {
			resp, err := out.Do(ctx, &rpc.Request{Method: q.Method, Params: q.Params, Timeout: timeoutOf(q.Method)})
			if err == nil && resp.Err != nil {
				err = &call.AnswerError{Method: q.Method, Err: resp.Err}
			}
			if err != nil {
				cancel(err) // the others are of no use without this one
				return
			}
			answers[i] = resp.Result
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return answers, nil
}

func (a *inputRequests) add(out *rpc.Outbound) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = make(map[*rpc.Outbound]struct{})
	}
	if len(a.open) == 0 && a.asking != nil {
		close(a.asking)
	}
	a.open[out] = struct{}{}
}

func (a *inputRequests) remove(out *rpc.Outbound) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, out)
	if len(a.open) == 0 {
		a.asking = nil
	}
}

// waiting reports whether the client has been asked something that it has not answered.
func (a *inputRequests) waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) > 0
}

// Asking returns a channel that is closed when the client has been asked something
// that it has not answered: whoever does not read what it sends then may wait for it
// in vain.
func (s *Session) AwaitingInput() <-chan struct{} {
	a := &s.inputRequests
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking == nil {
		a.asking = make(chan struct{})
		if len(a.open) > 0 {
			close(a.asking)
		}
	}
	return a.asking
}

// Settle implements call.Asker.
func (a *inputRequests) Settle(_ context.Context, result any, err error) (any, error) {
	return result, err
}

// receive takes a client's response, and reports whether something waited for it.
func (a *inputRequests) receive(m *jsonrpc.Message) bool {
	return a.deliver(func(out *rpc.Outbound) bool { return out.Receive(m) })
}

// unusable takes what was meant as one. Whatever waits for it waits no longer.
func (a *inputRequests) unusable(m *jsonrpc.Message, err error) bool {
	return a.deliver(func(out *rpc.Outbound) bool { return out.Unusable(m, err) })
}

func (a *inputRequests) deliver(takes func(*rpc.Outbound) bool) bool {
	a.mu.Lock()
	all := slices.Collect(maps.Keys(a.open))
	a.mu.Unlock()
	return slices.ContainsFunc(all, takes)
}

func timeoutOf(method string) time.Duration {
	switch method {
	case mcp.MethodElicit:
		return elicitTimeout
	case mcp.MethodCreateMessage:
		return sampleTimeout
	}
	return rootsTimeout
}

// onStream is the wire of the questions of one call: the call's stream.
type streamWire struct{ call *rpc.Call }

func (w streamWire) Send(ctx context.Context, out *rpc.Outgoing) error {
	if err := w.call.Send(ctx, out.Message); err != nil {
		return err
	}
	// A stream that is not read any more takes reports of progress for granted, but
	// nobody will answer a question that has not left.
	if s, ok := w.call.Stream.(interface{ Broken() error }); ok {
		if err := s.Broken(); err != nil {
			return fmt.Errorf("%w: %w", call.ErrNotSent, err)
		}
	}
	return nil
}
func (streamWire) Agreed(mcp.Revision) {}
func (streamWire) Close() error        { return nil }
