package rpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// MaxSubscriptions is the number of subscriptions that one peer may have at a time.
const MaxSubscriptions = 64

// Errors of requests that are not served.
var (
	// ErrDuplicateID is the error of a request with the id of another request in flight.
	ErrDuplicateID = errors.New("the id is in use by another request in flight")
	// ErrTooManyInFlight is the error of a request above the limit.
	ErrTooManyInFlight = &call.OverloadError{Limit: "requests in flight", RetryAfter: time.Second}
	// ErrTooManySubscriptions is the error of a subscription above MaxSubscriptions.
	ErrTooManySubscriptions = &call.OverloadError{Limit: "subscriptions", RetryAfter: time.Minute}
	// ErrShuttingDown is the response to a request that arrives during a shutdown.
	ErrShuttingDown = &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: "the server is shutting down: try again later",
	}
)

// CanonicalID returns the ID that is equal for all spellings of an integer. The id of a request has the spelling of its
// message, such as 1.0, which the response repeats.
func CanonicalID(id jsonrpc.ID) jsonrpc.ID {
	s := id.String()
	if strings.HasPrefix(s, `"`) {
		return id
	}
	for i := range len(s) {
		if c := s[i]; c == '.' || c|0x20 == 'e' {
			_ = id.UnmarshalJSON([]byte(s)) // a valid id
			break
		}
	}
	return id
}

// Inflight tracks the requests of one peer that are being served. The zero Inflight has no
// limit. It is safe for concurrent use.
type Inflight struct {
	Max int // requests at a time; 0 means no limit
	// Closing is for Call.Closing. It must be set before the first request.
	Closing <-chan struct{}

	mu       sync.Mutex
	requests map[jsonrpc.ID]accepted
	// longLived is the number of requests for which IsLongLived is true, and active the number of
	// those that are not cancelled.
	longLived, active int
}

// accepted is a request in flight.
type accepted struct {
	Canceler  // nil if the peer has cancelled it
	longLived bool
}

// Canceler cancels a request with a cause: it is its Call, or its context while it is queued.
type Canceler interface{ Cancel(cause error) }

type cancelFunc context.CancelCauseFunc

func (f cancelFunc) Cancel(cause error) { f(cause) }

// IsLongLived reports whether requests of a method stay open until they are cancelled. They
// have a limit of their own, so that they do not use up that of other requests.
func IsLongLived(method string) bool { return method == mcp.MethodListen }

// Admits reports whether there is place for n more requests, where more than Max count as Max. A transport that rejects
// a batch as a whole asks before it accepts the requests, each of which is held against the limit again.
func (f *Inflight) Admits(n int) bool { return f.Max <= 0 || f.Len()+min(n, f.Max) <= f.Max }

// Begin adds a request, and returns a context that ends when the peer cancels it. End must follow.
func (f *Inflight) Begin(ctx context.Context, id jsonrpc.ID) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if err := f.add(cancelFunc(cancel), id, false); err != nil {
		cancel(nil)
		return nil, err
	}
	return ctx, nil
}

func (f *Inflight) add(c Canceler, id jsonrpc.ID, longLived bool) error {
	id = CanonicalID(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, duplicate := f.requests[id]
	switch {
	case duplicate:
		return ErrDuplicateID
	case longLived && f.active >= MaxSubscriptions:
		return ErrTooManySubscriptions
	case !longLived && f.Max > 0 && len(f.requests)-f.longLived >= f.Max:
		return ErrTooManyInFlight
	}
	if longLived {
		f.longLived++
		f.active++
	}
	if f.requests == nil {
		f.requests = make(map[jsonrpc.ID]accepted)
	}
	f.requests[id] = accepted{c, longLived}
	return nil
}

// End removes a request. It reports false if the peer has cancelled it, so that it has no response.
func (f *Inflight) End(id jsonrpc.ID) (respond bool) {
	id = CanonicalID(id)
	f.mu.Lock()
	r := f.requests[id]
	if r.longLived {
		f.longLived--
		if r.Canceler != nil {
			f.active--
		}
	}
	delete(f.requests, id)
	f.mu.Unlock()
	if r.Canceler == nil { // cancelled, or not added
		return false
	}
	r.Cancel(nil)
	return true
}

// Cancel ends the context of the request with this id, if it is in flight, and reports whether it
// is. The id stays in use until the handler has returned.
func (f *Inflight) Cancel(id jsonrpc.ID, cause error) (found bool) {
	id = CanonicalID(id)
	f.mu.Lock()
	_, found = f.requests[id]
	r := f.cancelled(id)
	f.mu.Unlock()
	if r != nil {
		r.Cancel(cause)
	}
	return found
}

// cancelled records that a request is cancelled and returns its Canceler, or nil if it is not in
// flight or is cancelled already. It is called with mu held.
func (f *Inflight) cancelled(id jsonrpc.ID) Canceler {
	r := f.requests[id]
	if r.Canceler != nil {
		if r.longLived {
			f.active-- // another one may begin before this one ends
		}
		f.requests[id] = accepted{nil, r.longLived}
	}
	return r.Canceler
}

// CancelAll ends the contexts of all requests in flight.
func (f *Inflight) CancelAll(cause error) {
	f.mu.Lock()
	var all []Canceler
	for id := range f.requests {
		if r := f.cancelled(id); r != nil {
			all = append(all, r)
		}
	}
	f.mu.Unlock()
	for _, r := range all {
		r.Cancel(cause)
	}
}

// Accept puts c in flight: its id is in use, and Cancel ends its context, which Accept derives
// from ctx. A transport calls Accept in the order in which it reads requests, so that a
// cancellation finds the request before it and the second of two equal ids is rejected. The
// error is the response; the engine logs a limit that is reached. After Accept, [Engine.AppendReply] or End must be
// called once.
func (f *Inflight) Accept(ctx context.Context, e *Engine, c *Call) *jsonrpc.Error {
	c.Bind(ctx)
	if err := f.add(c, c.ID(), IsLongLived(c.Method())); err != nil {
		return e.rejection(ctx, c, err)
	}
	c.Closing, c.inflight = f.Closing, f
	return nil
}

// Len returns the number of requests in flight, without long-lived ones.
func (f *Inflight) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests) - f.longLived
}
