package legacy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Time-outs for a client's response. They allow for the time that a user needs.
const (
	elicitTimeout = 10 * time.Minute
	sampleTimeout = 2 * time.Minute
	rootsTimeout  = 30 * time.Second
)

// inputRequests holds the requests that a session has sent to its client and that have no
// response yet. In this era, an input request is a request on the stream of the call
// (2025-11-25, basic/transports, Sending Messages to the Server).
type inputRequests struct {
	ids      atomic.Int64
	mu       sync.Mutex
	open     map[*outbound.Requests]struct{}
	awaiting chan struct{}        // closed while open is not empty; created on first use
	tasks    outbound.TaskChanges // of tasks of the client
}

// seedIDs sets the first id. A session that is restored from its state must not reuse an
// id.
func (a *inputRequests) seedIDs() { a.ids.Store(time.Now().UnixMicro()) }

var _ rpc.InputRequester = (*inputRequests)(nil)

// RequestInput implements rpc.InputRequester.
func (a *inputRequests) RequestInput(ctx context.Context, c *rpc.Call, questions []rpc.InputRequest) ([]json.RawMessage, error) {
	out := &outbound.Requests{Wire: streamWire{c}, NotifyCancelled: true, IDs: &a.ids}
	a.add(out)
	defer a.remove(out)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]json.RawMessage, len(questions))
	var wg, leaving sync.WaitGroup
	if s, ok := c.Stream.(interface{ AwaitLeave(context.Context) bool }); ok {
		defer leaving.Wait()
		defer cancel(nil)
		leaving.Go(func() {
			if s.AwaitLeave(ctx) && c.Context().Err() == nil { // the connection also ends with the call
				cancel(rpc.ErrClientLeft)
			}
		})
	}
	for i, q := range questions {
		wg.Go(func() {
			var err error
			if q.Within > 0 && outbound.RunsAsTask(taskRequests(c), q.Method) {
				answers[i], err = a.requestTask(ctx, c, q)
			} else {
				answers[i], err = sendInputRequest(ctx, out, q)
			}
			if err != nil {
				cancel(err) // the other answers are useless without this one
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return answers, nil
}

// RequestInput implements rpc.SessionNotifier.
func (s *Session) RequestInput(ctx context.Context, r rpc.InputRequest) (json.RawMessage, error) {
	if s.stored != nil {
		current := s.stored.sessions.use(s.stored.sessionRef)
		if current == nil {
			return nil, errSessionEnded
		}
		defer current.Release()
		s = current.Session
	}
	out := &outbound.Requests{Wire: sessionWire{s}, NotifyCancelled: true, IDs: &s.inputRequests.ids}
	s.inputRequests.add(out)
	defer s.inputRequests.remove(out)
	return sendInputRequest(ctx, out, r)
}

// sendInputRequest sends an input request and returns the result in its response.
func sendInputRequest(ctx context.Context, out *outbound.Requests, q rpc.InputRequest) (json.RawMessage, error) {
	return do(ctx, out, q.Method, &outbound.Request{Method: q.Method, Params: q.Params, Timeout: cmp.Or(q.Within, timeoutOf(q.Method))})
}

// do sends a request. An error that the client reports is a *call.AnswerError for a question, whose
// method is given.
func do(ctx context.Context, out *outbound.Requests, question string, req *outbound.Request) (json.RawMessage, error) {
	resp, err := out.Do(ctx, req)
	if err == nil && resp.Err != nil {
		err = &call.AnswerError{Method: question, Err: resp.Err}
	}
	return resp.Result, err
}

func (a *inputRequests) add(out *outbound.Requests) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = make(map[*outbound.Requests]struct{})
	}
	if len(a.open) == 0 && a.awaiting != nil {
		close(a.awaiting)
	}
	a.open[out] = struct{}{}
}

func (a *inputRequests) remove(out *outbound.Requests) {
	out.Release()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, out)
	if len(a.open) == 0 {
		a.awaiting = nil
	}
}

// waiting reports whether an input request has no response yet.
func (a *inputRequests) waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) > 0
}

// AwaitingInput returns a channel that is closed while an input request has no response. A
// transport that stops reading then would wait for ever.
func (s *Session) AwaitingInput() <-chan struct{} {
	a := &s.inputRequests
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaiting == nil {
		a.awaiting = make(chan struct{})
		if len(a.open) > 0 {
			close(a.awaiting)
		}
	}
	return a.awaiting
}

// Finish implements rpc.InputRequester.
func (a *inputRequests) Finish(_ context.Context, result any, err error) (any, error) {
	return result, err
}

// receive delivers a response of the client and reports whether an input request was
// waiting for it.
func (a *inputRequests) receive(m *jsonrpc.Message) bool {
	return a.deliver(func(out *outbound.Requests) bool { return out.Receive(m) })
}

// receiveInvalid delivers a malformed response. The input request that waits for it fails.
func (a *inputRequests) receiveInvalid(m *jsonrpc.Message, err error) bool {
	return a.deliver(func(out *outbound.Requests) bool { return out.ReceiveInvalid(m, err) })
}

func (a *inputRequests) deliver(accepts func(*outbound.Requests) bool) bool {
	a.mu.Lock()
	all := slices.Collect(maps.Keys(a.open))
	a.mu.Unlock()
	return slices.ContainsFunc(all, accepts)
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

// streamWire sends input requests on the stream of their call.
type streamWire struct{ call *rpc.Call }

func (w streamWire) Send(ctx context.Context, out *outbound.Outgoing) error {
	if err := w.call.Send(ctx, out.Message); err != nil {
		return err
	}
	// A stream may drop notifications after the client has disconnected. An input request
	// must fail instead, because it will not be answered.
	if s, ok := w.call.Stream.(interface{ Broken() error }); ok {
		if err := s.Broken(); err != nil {
			return fmt.Errorf("%w: %w", call.ErrNotSent, err)
		}
	}
	return nil
}
func (streamWire) SetRevision(mcp.Revision) {}
func (streamWire) Close() error             { return nil }

// sessionWire sends input requests that belong to no call on the stream of their session.
type sessionWire struct{ session *Session }

func (w sessionWire) Send(_ context.Context, out *outbound.Outgoing) error {
	w.session.Notify(out.Message)
	return nil
}
func (sessionWire) SetRevision(mcp.Revision) {}
func (sessionWire) Close() error             { return nil }
