package rpc

import (
	"bytes"
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
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Outbound is the requests that this side has in flight on one connection. Safe
// for concurrent use; its fields are set before the first request.
type Outbound struct {
	Wire Wire
	// Meta are the members that every request carries in its _meta, encoded and
	// without braces; empty for none.
	Meta []byte
	// NotifyCancelled says whether abandoning a request is told to the peer by
	// notifications/cancelled. Where it is not, ending Wire.Send tells it.
	NotifyCancelled bool
	// Started, if set, is closed when the peer shows its first sign of life. The
	// time-outs of requests begin to count then, or after StartAllowance: programs that
	// a package runner has to fetch first take their time.
	Started        <-chan struct{}
	StartAllowance time.Duration
	// IDs, if set, is where ids come from, for connections that more than one
	// Outbound shares.
	IDs *atomic.Int64

	heard   atomic.Uint64 // messages that have come
	mu      sync.Mutex
	ids     atomic.Int64
	pending map[jsonrpc.ID]*pending
	holds   map[*TimeoutPause]struct{}
	alarm   alarm
	failed  error         // why the connection is of no more use
	gone    chan struct{} // closed with failed; made when first needed
}

// Do sends a request and waits for its response. What the peer reports as an
// error is the Response's; the error returned is always of this side: a
// *TimeoutError, call.ErrConnectionLost, call.ErrClosed, call.ErrInvalidResponse, or the cause
// with which ctx ended. When it gives up before the response came, it cancels
// the request.
func (o *Outbound) Do(ctx context.Context, req *Request) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pending{req: req, cancel: cancel, wake: make(chan struct{}, 1)}
	started := p.startClock(o) // before the peer could report progress
	if err := o.begin(p); err != nil {
		return Response{}, err
	}
	defer o.end(p)

	out := &Outgoing{Message: o.encode(p), ID: p.id, Method: req.Method, Name: req.Name, Mirror: req.Mirror}
	unsent := false
	var sent chan error // nil once sending is over
	if req.OnProgress == nil {
		err := o.Wire.Send(ctx, out)
		if err != nil && ctx.Err() == nil && !p.isAnswered() {
			return Response{}, err
		}
		unsent = errors.Is(err, call.ErrNotSent)
	} else {
		// Over HTTP sending takes as long as the answer does. With progress to report
		// meanwhile, another goroutine waits for it, which ends when ctx does.
		sent = make(chan error, 1)
		go func() { sent <- o.Wire.Send(ctx, out) }()
	}
	for {
		if done := p.drain(); done {
			if sent != nil { // answered, it is about to end, and must not outlive us
				<-sent
			}
			return p.resp, p.err
		}
		select {
		case <-p.wake:
		case <-started:
			started = nil
			o.restart(p)
		case err := <-sent:
			sent, unsent = nil, errors.Is(err, call.ErrNotSent)
			if err != nil && ctx.Err() == nil && !p.isAnswered() {
				return Response{}, err
			}
		case <-ctx.Done():
			if sent != nil {
				unsent = errors.Is(<-sent, call.ErrNotSent)
			}
			if done := p.drain(); done {
				return p.resp, p.err
			}
			return Response{}, o.abandon(ctx, p, unsent)
		}
	}
}

// Notify sends a notification. Params must be a JSON object, or nil.
func (o *Outbound) Notify(ctx context.Context, method string, params []byte) error {
	return o.Wire.Send(ctx, &Outgoing{
		Message: jsonrpc.AppendNotification(nil, method, params),
		Method:  method,
	})
}

func (o *Outbound) begin(p *pending) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return fmt.Errorf("%w: %w", call.ErrNotSent, o.failed)
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
	for h := range o.holds {
		h.take(p)
	}
	o.watch(p)
	return nil
}

// restart begins the time-outs of a request anew.
func (o *Outbound) restart(p *pending) {
	p.setClock(0)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watch(p)
}

func (o *Outbound) end(p *pending) {
	o.mu.Lock()
	delete(o.pending, p.id)
	for h := range o.holds {
		h.leave(p)
	}
	o.mu.Unlock()
}

// encode writes the request. Its progress token is its id, unique for as long as
// it needs to be.
func (o *Outbound) encode(p *pending) []byte {
	req := p.req
	dst := make([]byte, 0, 128+len(req.Params)+len(o.Meta))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = p.id.Append(dst)
	dst = append(dst, `,"method":`...)
	dst = jsonrpc.AppendString(dst, req.Method)
	hasMeta := len(o.Meta) > 0 || req.OnProgress != nil || len(req.Meta) > 0
	if req.Params == nil && !hasMeta {
		return append(dst, '}')
	}
	dst = append(dst, `,"params":{`...)
	dst = append(dst, membersOf(req.Params)...)
	if hasMeta {
		dst = append(comma(dst), `"_meta":{`...)
		dst = append(dst, o.Meta...)
		if req.OnProgress != nil {
			dst = comma(dst)
			dst = append(dst, `"`+mcp.MetaProgressToken+`":`...)
			dst = p.id.Append(dst)
		}
		if len(req.Meta) > 0 {
			dst = appendMeta(dst, req.Meta)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, "}}"...)
	oneLine(dst)
	return dst
}

// membersOf returns what is between the braces of an object; nothing, if there is none.
func membersOf(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 {
		return nil
	}
	return bytes.TrimSpace(object[1 : len(object)-1])
}

func appendMeta(dst []byte, meta map[string]json.RawMessage) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		dst = comma(dst)
		dst = jsonrpc.AppendString(dst, key)
		dst = append(dst, ':')
		dst = append(dst, meta[key]...)
	}
	return dst
}

func comma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}

// abandon gives up a request whose context has ended, and says so to the peer if
// the peer can have it.
func (o *Outbound) abandon(ctx context.Context, p *pending, unsent bool) error {
	cause := context.Cause(ctx)
	if o.NotifyCancelled && !p.req.Uncancellable && !unsent {
		params, _ := json.Marshal(mcp.CancelledParams{RequestID: p.id, Reason: reasonFor(cause)})
		// The caller is not kept waiting for a peer that may not be reading.
		notice, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = o.Notify(notice, mcp.NotificationCancelled, params)
	}
	return cause
}

// reasonFor is what the peer is told of the cause. The text of a cause is our
// program's own and can hold anything, so it stays here.
func reasonFor(cause error) string {
	if errors.Is(cause, context.DeadlineExceeded) {
		return "no response in time"
	}
	return "no longer wanted"
}

// Receive takes a message that arrived, and reports whether it was for a request
// of this side: a response, or a report of progress.
func (o *Outbound) Receive(m *jsonrpc.Message) bool {
	o.heard.Add(1)
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

// ReceiveInvalid takes a message that is none. If it was meant as the response to a
// request, that request ends with call.ErrInvalidResponse.
func (o *Outbound) ReceiveInvalid(m *jsonrpc.Message, err error) bool {
	return m.Kind == jsonrpc.Response && o.Resolve(m.ID, Response{}, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err))
}

// Resolve hands a response to the request that waits for it, and reports whether
// there is one. invalid, if not nil, says why the message cannot be used.
func (o *Outbound) Resolve(id jsonrpc.ID, resp Response, invalid error) bool {
	o.mu.Lock()
	p := o.pending[id]
	o.mu.Unlock()
	if p == nil {
		return false
	}
	p.answer(resp, invalid)
	return true
}

// Report hands a report of progress to the request that it is about. Reports
// about others are dropped.
func (o *Outbound) Report(token jsonrpc.ID, report Progress) {
	o.mu.Lock()
	p := o.pending[token]
	o.mu.Unlock()
	if p == nil || p.req.OnProgress == nil {
		return
	}
	p.report(report)
}

// Fail ends every request in flight, and every later one, with err. The first
// failure stays.
func (o *Outbound) Fail(err error) {
	o.mu.Lock()
	if o.failed == nil {
		o.failed = err
		if o.gone == nil {
			o.gone = make(chan struct{})
		}
		close(o.gone)
		o.stopAlarm()
	}
	all := slices.Collect(maps.Values(o.pending))
	o.mu.Unlock()
	for _, p := range all {
		p.answer(Response{}, err)
		p.cancel(err) // whatever is still being sent for it need not be
	}
}

// Received is a number that grows with each message that arrives.
func (o *Outbound) Received() uint64 { return o.heard.Load() }

// Failed returns the error that Fail was given, or nil.
func (o *Outbound) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
