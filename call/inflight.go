package call

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Errors that end calls, or keep them from beginning.
var (
	// ErrDuplicateID is returned for a request whose id another one in flight has.
	ErrDuplicateID = errors.New("a request with this id is in flight already")
	// ErrTooManyInFlight is returned for a request beyond the limit.
	ErrTooManyInFlight = errors.New("too many requests in flight")
	// ErrCancelled is the cause with which a handler's context ends when the peer
	// cancels the request.
	ErrCancelled = errors.New("the peer cancelled the request")
)

// Inflight is the set of requests of one peer that are being served. The zero
// Inflight is empty and has no limit. Safe for concurrent use.
type Inflight struct {
	Max int // 0: no limit

	mu      sync.Mutex
	cancels map[jsonrpc.ID]context.CancelCauseFunc
}

// Begin notes that the request with this id is being served. The context it
// returns ends when the peer cancels the request. Every successful Begin is
// followed by End.
func (f *Inflight) Begin(ctx context.Context, id jsonrpc.ID) (context.Context, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, dup := f.cancels[id]; dup {
		return nil, ErrDuplicateID
	}
	if f.Max > 0 && len(f.cancels) >= f.Max {
		return nil, ErrTooManyInFlight
	}
	if f.cancels == nil {
		f.cancels = make(map[jsonrpc.ID]context.CancelCauseFunc)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.cancels[id] = cancel
	return ctx, nil
}

func (f *Inflight) cancelOf(id jsonrpc.ID) context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels[id]
}

// End notes that the request is answered, or need not be: it reports whether a
// response is still wanted, which it is unless the peer cancelled the request.
func (f *Inflight) End(id jsonrpc.ID) (wanted bool) {
	f.mu.Lock()
	cancel := f.cancels[id]
	delete(f.cancels, id)
	f.mu.Unlock()
	if cancel == nil { // cancelled, or never begun
		return false
	}
	cancel(nil)
	return true
}

// Cancel ends the context of the request with this id, if it is in flight. The id
// stays taken until its handler is done.
func (f *Inflight) Cancel(id jsonrpc.ID, cause error) {
	f.mu.Lock()
	cancel := f.cancels[id]
	if cancel != nil {
		f.cancels[id] = nil
	}
	f.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// AppendReply runs the call as [Engine.AppendReply] does, noted as in flight
// meanwhile. It appends nothing when the peer has cancelled the request, which
// then has no response.
func (f *Inflight) AppendReply(ctx context.Context, dst []byte, e *Engine, c *Call, identity []byte) []byte {
	ctx, err := f.Begin(ctx, c.ID)
	if err != nil {
		return jsonrpc.AppendError(dst, c.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}, false)
	}
	c.Cancel = f.cancelOf(c.ID)
	// Deferred too, so that a handler which ends its goroutine gives its id back.
	ended := false
	defer func() {
		if !ended {
			f.End(c.ID)
		}
	}()
	start := len(dst)
	dst, _ = e.AppendReply(ctx, dst, c, identity)
	ended = true
	if !f.End(c.ID) {
		return dst[:start]
	}
	return dst
}

// Len returns how many requests are in flight.
func (f *Inflight) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cancels)
}

// CancelAll ends the contexts of all requests in flight.
func (f *Inflight) CancelAll(cause error) {
	f.mu.Lock()
	var all []context.CancelCauseFunc
	for id, cancel := range f.cancels {
		if cancel != nil {
			all = append(all, cancel)
			f.cancels[id] = nil
		}
	}
	f.mu.Unlock()
	for _, cancel := range all {
		cancel(cause)
	}
}
