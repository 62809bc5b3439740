package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/revision"
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

// ifUnsent returns err if the peer has not received the request, and otherwise nil.
func ifUnsent(err error) error {
	if errors.Is(err, call.ErrNotSent) {
		return err
	}
	return nil
}

// unsent adds call.ErrNotSent to the cause why a request was not sent.
func unsent(cause error) error { return fmt.Errorf("%w: %w", call.ErrNotSent, cause) }

// ErrUnserved is wrapped by the error of a Wire if the peer rejected a request, or the HTTP request that carried it,
// before acting on it.
var ErrUnserved = errors.New("request rejected")

// Rejected is the error of a request that the peer rejected before acting on it. A Wire returns it if it can tell,
// for example by an HTTP status.
type Rejected struct{ Err *jsonrpc.Error }

// Error implements the error interface.
func (e *Rejected) Error() string { return e.Err.Error() }

// Unwrap returns the error that the peer reports, and ErrUnserved.
func (e *Rejected) Unwrap() []error { return []error{e.Err, ErrUnserved} }

// provesUnserved reports whether the error of one exchange, which the Wire or this side has returned, proves that the
// peer has not acted on the request: not a byte of it was sent, or the peer rejected it, before dispatch, with an
// HTTP status. The response to a request proves nothing, whatever its code: a tool can fail with any code.
func provesUnserved(err error) bool {
	if errors.Is(err, call.ErrNotSent) || errors.Is(err, call.ErrUnauthorized) || errors.Is(err, ErrUnserved) {
		return true
	}
	status, ok := errors.AsType[*call.StatusError](err)
	return ok && 400 <= status.Status && status.Status < 500 && status.Status != 408
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
		return unsent(o.failed)
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

// Limits on sending notifications/cancelled, because the peer may not be reading.
const (
	cancelBrief   = 20 * time.Millisecond // how long the caller waits, so that no later message overtakes it
	cancelWait    = time.Second           // how long Close waits
	cancelTimeout = 10 * time.Second      // without it, the handler of the peer runs on
)

// cancel gives up a request whose context has ended, and notifies the peer. If that takes long, it continues in
// the background.
func (o *Requests) cancel(ctx context.Context, p *pending, unserved bool) error {
	cause := context.Cause(ctx)
	if unserved {
		return unsent(cause)
	}
	if !o.NotifyCancelled || p.req.Uncancellable {
		return cause
	}
	params, _ := json.Marshal(mcp.CancelledParams{RequestID: p.id, Reason: cancelReason(cause)})
	notified := make(chan struct{})
	o.mu.Lock()
	if o.closing {
		close(notified)
	} else {
		o.cancelled = true
		o.notifying.Go(func() {
			defer close(notified)
			limited, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
			defer stop()
			_ = o.Notify(limited, mcp.NotificationCancelled, params)
		})
	}
	o.mu.Unlock()
	waitFor(notified, cancelBrief)
	return cause
}

// waitFor waits until done is closed, but at most for d.
func waitFor(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// AwaitCancellations waits until the peer has been notified of the requests that were given up, but at most a
// second. The peer is not notified of requests that are given up later.
func (o *Requests) AwaitCancellations() {
	o.mu.Lock()
	o.closing = true
	cancelled := o.cancelled
	o.mu.Unlock()
	if !cancelled {
		return
	}
	notified := make(chan struct{})
	go func() { // ends after cancelTimeout at the latest, and with the Wire
		defer close(notified)
		o.notifying.Wait()
	}()
	waitFor(notified, cancelWait)
}

// Close waits up to a second until the peer has been notified of the requests that were given up, and closes the wire
// that all share. When it returns, the goroutines of all have ended.
func Close(wire Wire, all ...*Requests) error {
	for _, o := range all {
		o.AwaitCancellations()
	}
	err := wire.Close()
	for _, o := range all {
		o.notifying.Wait()
	}
	return err
}

// cancelReason returns the reason that the peer receives. It leaves out the text of the
// cause, which is private to this program.
func cancelReason(cause error) string {
	if errors.Is(cause, context.DeadlineExceeded) {
		return "no response in time"
	}
	return "no longer wanted"
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

// subscriptionOf returns the id of the subscription that a notification names, and whether it names one. An id that
// cannot be read is zero.
func subscriptionOf(m *jsonrpc.Message) (id jsonrpc.ID, named bool) {
	meta, _ := m.Params.Get("_meta")
	raw, named := jsonrpc.Get(meta, mcp.MetaSubscriptionID)
	if id.UnmarshalJSON(raw) != nil {
		return jsonrpc.ID{}, named
	}
	return id, named
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

// ErrSubscriptionEnded means that the server has ended a subscription.
var ErrSubscriptionEnded = errors.New("the server ended the subscription")

// ReceiveSubscription takes a notification and reports whether it belongs to a subscription. A notification that
// cancels a subscription ends its request; the server then need not send the response.
func (o *Requests) ReceiveSubscription(m *jsonrpc.Message) bool {
	if m.Method == mcp.NotificationCancelled {
		p := o.subscription(revision.CancelledID(m))
		if p == nil {
			return false
		}
		p.answer(Response{}, ErrSubscriptionEnded)
		p.cancel(ErrSubscriptionEnded) // ends Send: over HTTP, the server may keep the stream open
		return true
	}
	id, named := subscriptionOf(m)
	if !named {
		return o.receiveUnidentified(m)
	}
	p := o.subscription(id)
	if p != nil {
		p.req.OnNotification(m)
	}
	return p != nil
}

// subscription returns the request in flight that opened the subscription with this id, or nil.
func (o *Requests) subscription(id jsonrpc.ID) *pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pending[id]; p != nil && p.req.OnNotification != nil {
		return p
	}
	return nil
}

// receiveUnidentified passes a change without the id of a subscription to all subscriptions,
// which ignore changes that they have not asked for. Some servers leave out the id, which is
// required (2026-07-28, basic/patterns/subscriptions, Receiving Notifications).
func (o *Requests) receiveUnidentified(m *jsonrpc.Message) bool {
	if _, ok := changes.Of(m); !ok {
		return false
	}
	o.mu.Lock()
	var all []*pending
	for _, p := range o.pending {
		if p.req.OnNotification != nil {
			all = append(all, p)
		}
	}
	o.mu.Unlock()
	for _, p := range all {
		p.req.OnNotification(m)
	}
	return len(all) > 0
}
