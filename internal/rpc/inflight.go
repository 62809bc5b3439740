package rpc

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors that end calls, or keep them from beginning.
var (
	// ErrDuplicateID is returned for a request whose id another one in flight has.
	ErrDuplicateID = errors.New("a request with this id is in flight already")
	// ErrTooManyInFlight is returned for a request beyond the limit.
	ErrTooManyInFlight = errors.New("too many requests in flight")
	// ErrTooManySubscriptions is returned for a subscription beyond MaxSubscriptions.
	ErrTooManySubscriptions = errors.New("too many subscriptions: cancel one first, or ask for more in one")
)

// Inflight is the set of requests of one peer that are being served. The zero
// Inflight is empty and has no limit. Safe for concurrent use.
type Inflight struct {
	Max int // 0: no limit
	// Closing is for Call.Closing. It is set before the first request.
	Closing <-chan struct{}

	mu      sync.Mutex
	places  int // that Admit has given away
	cancels map[jsonrpc.ID]canceler
	stays   map[jsonrpc.ID]struct{} // those of cancels that stay open, see Stays
	staying int                     // those of stays that are not cancelled
}

// canceler is what ends a request: its Call, or the context that it waits in.
type canceler interface{ Cancel(cause error) }

type cancelFunc context.CancelCauseFunc

func (f cancelFunc) Cancel(cause error) { f(cause) }

// IsLongLived reports whether requests of a method stay open until they are cancelled.
// They are counted apart, so that they leave room for others.
func IsLongLived(method string) bool { return method == mcp.MethodListen }

// Reserve takes n places for requests that are about to begin, all or none, and reports
// whether there were so many left. It is for whoever has a better way to refuse a request
// than the error that Begin returns: where every request is admitted first, none meets
// ErrTooManyInFlight. More places than there are at all count as all of them. A
// successful Reserve is followed by Leave.
func (f *Inflight) Reserve(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = f.sized(n)
	if f.Max > 0 && f.places+n > f.Max {
		return false
	}
	f.places += n
	return true
}

// Release gives n places back.
func (f *Inflight) Release(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places -= f.sized(n)
}

// sized is how many places n requests take.
func (f *Inflight) sized(n int) int {
	if f.Max > 0 {
		return min(n, f.Max)
	}
	return n
}

// Begin notes that the request with this id is being served. The context it
// returns ends when the peer cancels the request. Every successful Begin is
// followed by End.
func (f *Inflight) Begin(ctx context.Context, id jsonrpc.ID) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if err := f.begin(cancelFunc(cancel), id, false); err != nil {
		cancel(nil)
		return nil, err
	}
	return ctx, nil
}

func (f *Inflight) begin(c canceler, id jsonrpc.ID, stays bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, dup := f.cancels[id]
	switch {
	case dup:
		return ErrDuplicateID
	case stays && f.staying >= MaxSubscriptions:
		return ErrTooManySubscriptions
	case !stays && f.Max > 0 && len(f.cancels)-len(f.stays) >= f.Max:
		return ErrTooManyInFlight
	}
	if stays {
		if f.stays == nil {
			f.stays = make(map[jsonrpc.ID]struct{})
		}
		f.stays[id] = struct{}{}
		f.staying++
	}
	if f.cancels == nil {
		f.cancels = make(map[jsonrpc.ID]canceler)
	}
	f.cancels[id] = c
	return nil
}

// End notes that the request is answered, or need not be: it reports whether a
// response is still wanted, which it is unless the peer cancelled the request.
func (f *Inflight) End(id jsonrpc.ID) (wanted bool) {
	f.mu.Lock()
	cancel := f.cancels[id]
	f.left(id, cancel != nil)
	delete(f.cancels, id)
	delete(f.stays, id)
	f.mu.Unlock()
	if cancel == nil { // cancelled, or never begun
		return false
	}
	cancel.Cancel(nil)
	return true
}

// left makes room for another subscription when one has ended, or is as good as. It
// is called with mu held.
func (f *Inflight) left(id jsonrpc.ID, was bool) {
	if _, stays := f.stays[id]; stays && was {
		f.staying--
	}
}

// Cancel ends the context of the request with this id, if it is in flight. The id
// stays taken until its handler is done.
func (f *Inflight) Cancel(id jsonrpc.ID, cause error) {
	f.mu.Lock()
	cancel := f.cancels[id]
	if cancel != nil {
		f.left(id, true)
		f.cancels[id] = nil
	}
	f.mu.Unlock()
	if cancel != nil {
		cancel.Cancel(cause)
	}
}

// AppendReply runs the call as [Engine.AppendReply] does, noted as in flight
// meanwhile. It appends nothing when the peer has cancelled the request, which
// then has no response.
func (f *Inflight) AppendReply(ctx context.Context, dst []byte, e *Engine, c *Call, identity []byte) []byte {
	c.Bind(ctx)
	if err := f.begin(c, c.ID(), IsLongLived(c.Method())); err != nil {
		return jsonrpc.AppendError(dst, c.ID(), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}, false)
	}
	c.Closing = f.Closing
	// Deferred too, so that a handler which ends its goroutine gives its id back.
	ended := false
	defer func() {
		if !ended {
			f.End(c.ID())
		}
	}()
	start := len(dst)
	dst, _ = e.AppendReply(ctx, dst, c, identity)
	ended = true
	if !f.End(c.ID()) {
		return dst[:start]
	}
	return dst
}

// Len returns how many requests are in flight, without those that stay open.
func (f *Inflight) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cancels) - len(f.stays)
}

// CancelAll ends the contexts of all requests in flight.
func (f *Inflight) CancelAll(cause error) {
	f.mu.Lock()
	var all []canceler
	for id, cancel := range f.cancels {
		if cancel != nil {
			f.left(id, true)
			all = append(all, cancel)
			f.cancels[id] = nil
		}
	}
	f.mu.Unlock()
	for _, cancel := range all {
		cancel.Cancel(cause)
	}
}
