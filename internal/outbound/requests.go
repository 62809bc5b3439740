package outbound

import (
	"context"
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

// Requests sends requests on one connection and tracks those in flight. Its fields must be set
// before the first request. It is safe for concurrent use.
type Requests struct {
	Wire Wire
	// Meta contains the entries of _meta that every request carries, encoded and without braces; may be empty.
	Meta []byte
	// NotifyCancelled makes Do send notifications/cancelled for a request that it gives up.
	// Otherwise the end of Wire.Send cancels the request.
	NotifyCancelled bool
	// Shared says that several people send requests on the connection. A message is then attributed to one of them
	// only if the protocol does so; see OriginOf.
	Shared bool
	// Started, if set, is closed when the peer sends its first byte. Until then, time-outs do not begin before
	// StartBy, because a package runner may have to download the program first. All requests share that time, so a
	// peer that never sends anything delays only the first one.
	Started <-chan struct{}
	StartBy time.Time
	// IDs, if set, is the source of IDs, for connections with more than one Requests.
	IDs *atomic.Int64
	// LateProgress, if set, receives progress of requests whose response has already arrived. It must not
	// block.
	LateProgress func(token jsonrpc.ID, report Progress)

	received  atomic.Uint64 // see Received
	mu        sync.Mutex
	ids       atomic.Int64
	begun     uint64 // requests
	pending   map[jsonrpc.ID]*pending
	pauses    map[*TimeoutPause]struct{}
	deadlines deadlineTimer
	failed    error          // see Fail
	cancelled bool           // a cancellation was sent
	closing   bool           // see AwaitCancellations
	notifying sync.WaitGroup // counts cancellations that are being sent; Add is called under mu before closing is set
	done      chan struct{}  // closed when failed is set; made when first needed
}

// Do sends a request and waits for its response. An error that the peer reports is part of the Response. The returned
// error arises on this side: a *call.TimeoutError, call.ErrConnectionLost, call.ErrClosed, call.ErrInvalidResponse, or
// the cause of ctx. It also matches call.ErrNotSent if nothing was sent. If Do returns before the response has
// arrived, it cancels the request.
func (o *Requests) Do(ctx context.Context, req *Request) (Response, error) {
	resp, err := o.exchange(ctx, req)
	req.MayHaveRun = req.MayHaveRun || !provesUnserved(err)
	return resp, err
}

func (o *Requests) exchange(ctx context.Context, req *Request) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, unsent(context.Cause(ctx))
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pending{req: req, ctx: caller, cancel: cancel, wake: make(chan struct{}, 1)}
	started := p.startTimeouts(o) // before the peer can report progress
	if err := o.begin(p); err != nil {
		return Response{}, err
	}
	defer o.end(p)
	req.Token = p.id

	out := &Outgoing{Message: o.encode(p), ID: p.id, Method: req.Method, Name: req.Name, Mirror: req.Mirror,
		Forwarding: req.Forwarding}
	var failed error    // error of Send, if the peer has not received the request
	var sent chan error // nil when Send has returned
	outcome := func() (Response, error) {
		if p.err != nil && failed != nil { // the connection has failed at the same time
			return Response{}, failed
		}
		return p.resp, p.err
	}
	if req.OnProgress == nil {
		err := o.Wire.Send(ctx, out)
		if err != nil && ctx.Err() == nil && !p.isAnswered() {
			return Response{}, err
		}
		failed = ifUnsent(err)
	} else {
		// Over HTTP, Send returns after the response. Another goroutine calls it, so that
		// progress can be delivered before. Send returns when ctx ends.
		sent = make(chan error, 1)
		go func() { sent <- o.Wire.Send(ctx, out) }()
	}
	for {
		if p.deliver() {
			if sent != nil {
				failed = ifUnsent(<-sent) // Send must not outlive Do; it is about to return
			}
			return outcome()
		}
		select {
		case <-p.wake:
		case <-started:
			started = nil
			o.restart(p)
		case err := <-sent:
			sent, failed = nil, ifUnsent(err)
			if err != nil && ctx.Err() == nil && !p.isAnswered() {
				return Response{}, err
			}
		case <-ctx.Done():
			if sent != nil {
				failed = ifUnsent(<-sent)
			}
			if p.deliver() {
				return outcome()
			}
			return Response{}, o.cancel(ctx, p, failed != nil)
		}
	}
}

// Notify sends a notification. params must be a JSON object, or nil.
func (o *Requests) Notify(ctx context.Context, method string, params []byte) error {
	return o.Wire.Send(ctx, &Outgoing{
		Message: jsonrpc.AppendNotification(nil, method, params),
		Method:  method,
	})
}

// NotifyAs sends a notification with the params and the metadata of a request.
func (o *Requests) NotifyAs(ctx context.Context, req *Request) error {
	return o.Wire.Send(ctx, &Outgoing{Message: o.encode(&pending{req: req}), Method: req.Method})
}

// begin makes p a request in flight.
func (o *Requests) begin(p *pending) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return unsent(endedError{o.failed})
	}
	ids := o.IDs
	if ids == nil {
		ids = &o.ids
	}
	p.id = jsonrpc.IntID(ids.Add(1))
	if o.pending == nil {
		o.pending = make(map[jsonrpc.ID]*pending)
	}
	o.pending[p.id] = p
	o.begun++
	p.number = o.begun
	for pause := range o.pauses {
		pause.add(p)
	}
	o.schedule(p)
	return nil
}

// restart starts the time-outs of a request again, because the peer has started.
func (o *Requests) restart(p *pending) {
	p.setTimeouts(0)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.schedule(p)
}

func (o *Requests) end(p *pending) {
	o.mu.Lock()
	delete(o.pending, p.id)
	for pause := range o.pauses {
		pause.remove(p)
	}
	o.mu.Unlock()
}

// Receive takes a message that has arrived. It reports whether the message belongs to a request
// of this side: whether it is a response or a progress notification.
func (o *Requests) Receive(m *jsonrpc.Message) bool {
	o.received.Add(1)
	switch {
	case m.Kind == jsonrpc.Response:
		return o.Resolve(m.ID, Response{Result: m.Raw, Err: m.Err}, nil)
	case m.Method == mcp.NotificationProgress:
		if token, report, ok := ProgressOf(m); ok {
			o.Report(token, report)
		}
		return true
	}
	return false
}

// Filter passes a notification through the middleware of the request that it belongs to, if the protocol identifies the
// request, and reports whether to deliver it. stream has the same meaning as in OriginOf. Middleware may change m; if
// it panics, the request ends.
func (o *Requests) Filter(stream jsonrpc.ID, m *jsonrpc.Message) (deliver bool) {
	if m.Kind != jsonrpc.Notification {
		return true
	}
	if m.Method == mcp.NotificationProgress {
		stream, _, _ = ProgressOf(m)
	} else if id, named := subscriptionOf(m); named {
		stream = id
	}
	o.mu.Lock()
	p := o.pending[stream]
	o.mu.Unlock()
	if p == nil || p.req.Call == nil || len(p.req.Call.Filters()) == 0 {
		return true
	}
	returned := false
	rpc.Isolate(func() {
		defer func() {
			if v := recover(); v != nil || !returned {
				err := fmt.Errorf("the program's function for OnNotification panicked: %v", v)
				p.answer(Response{}, err)
				p.cancel(err)
			}
		}()
		deliver, _ = rpc.Filter(p.req.Call.Filters(), m)
		returned = true
	})
	if !deliver {
		o.received.Add(1)
	}
	return deliver
}

// ReceiveInvalid takes a message that is not valid. If it is a response, its request ends with
// call.ErrInvalidResponse, and ReceiveInvalid reports true.
func (o *Requests) ReceiveInvalid(m *jsonrpc.Message, err error) bool {
	return m.Kind == jsonrpc.Response && o.Resolve(m.ID, Response{}, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err))
}

// Resolve ends the request with this id, and reports whether there is one. If invalid is not
// nil, it is the error of the request.
func (o *Requests) Resolve(id jsonrpc.ID, resp Response, invalid error) bool {
	o.mu.Lock()
	p := o.pending[id]
	o.mu.Unlock()
	if p == nil {
		return false
	}
	p.answer(resp, invalid)
	return true
}

// Report delivers progress to the request with this token, or to LateProgress.
func (o *Requests) Report(token jsonrpc.ID, report Progress) {
	o.mu.Lock()
	p := o.pending[token]
	o.mu.Unlock()
	if p != nil && (p.req.OnProgress == nil || p.report(report)) || o.LateProgress == nil {
		return
	}
	o.LateProgress(token, report)
}

// Fail ends every request in flight, and every later one, with err. Later calls of Fail have no
// effect on later requests.
func (o *Requests) Fail(err error) {
	o.mu.Lock()
	if o.failed == nil {
		o.failed = err
		if o.done == nil {
			o.done = make(chan struct{})
		}
		close(o.done)
		o.stopTimer()
	}
	all := slices.Collect(maps.Values(o.pending))
	o.mu.Unlock()
	for _, p := range all {
		p.answer(Response{}, err)
		p.cancel(err) // ends Send
	}
}

// Failed returns the error of the first call of Fail, or nil.
func (o *Requests) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// Done returns a channel that is closed by Fail.
func (o *Requests) Done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = make(chan struct{})
	}
	return o.done
}

// Received returns the number of messages that have arrived.
func (o *Requests) Received() uint64 { return o.received.Load() }
