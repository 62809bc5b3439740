package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxQueuedProgress limits the reports that wait for a slow OnProgress. Above it, a new report replaces the newest
// queued one.
const maxQueuedProgress = 256

// maxPause is the time-out of a paused request without a maximum time-out.
const maxPause = 24 * time.Hour

// pending is one request in flight.
type pending struct {
	id     jsonrpc.ID
	req    *Request
	ctx    context.Context // context of the caller; see OriginOf
	cancel context.CancelCauseFunc

	// Guarded by Requests.mu.
	number uint64 // increases with each request

	mu       sync.Mutex
	queue    []Progress
	wake     chan struct{} // capacity 1: signals that reports are queued or the request is answered
	resp     Response
	err      error
	answered bool

	deadline time.Time     // see deadlineTimer; zero without a time-out and after it has passed
	allowed  time.Duration // the time until deadline, for the error
	last     time.Time     // the deadline from MaxTimeout; zero: none
	pauses   int           // see TimeoutPause
}

// startTimeouts starts the time-outs. If the peer has not started yet, they begin at StartBy, and the returned channel
// is closed when it has started; otherwise the channel is nil.
func (p *pending) startTimeouts(o *Requests) (started <-chan struct{}) {
	var allowance time.Duration
	if o.Started != nil {
		select {
		case <-o.Started:
		default:
			if allowance = max(0, time.Until(o.StartBy).Round(time.Millisecond)); allowance > 0 {
				started = o.Started
			}
		}
	}
	p.setTimeouts(allowance)
	return started
}

// setTimeouts starts the time-outs, extended by an allowance.
func (p *pending) setTimeouts(allowance time.Duration) {
	timeout, maximum := p.req.Timeout, p.req.MaxTimeout
	if timeout <= 0 && maximum <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if maximum > 0 {
		p.last = now.Add(allowance + maximum)
		if timeout <= 0 || maximum < timeout {
			timeout = maximum
		}
	}
	if p.pauses > 0 {
		p.deadline, p.allowed = p.pausedDeadline(), maximum
		return
	}
	p.deadline, p.allowed = now.Add(allowance+timeout), allowance+timeout
}

// extend restarts the time-out, within the maximum time-out. mu must be held.
func (p *pending) extend() {
	if p.deadline.IsZero() || p.pauses > 0 {
		return
	}
	deadline, allowed := p.last, p.req.MaxTimeout
	if timeout := p.req.Timeout; timeout > 0 {
		if extended := time.Now().Add(timeout); deadline.IsZero() || extended.Before(deadline) {
			deadline, allowed = extended, timeout
		}
	}
	p.deadline, p.allowed = deadline, allowed
}

// pause stops the time-out, but not the maximum time-out.
func (p *pending) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses++
	if p.deadline.IsZero() {
		return
	}
	p.deadline, p.allowed = p.pausedDeadline(), p.req.MaxTimeout
}

// pausedDeadline returns the deadline of a paused request. mu must be held.
func (p *pending) pausedDeadline() time.Time {
	if p.last.IsZero() {
		return time.Now().Add(maxPause)
	}
	return p.last
}

// resume restarts the time-out after a pause.
func (p *pending) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses--
	p.extend()
}

func (p *pending) answer(resp Response, err error) {
	p.mu.Lock()
	if !p.answered {
		p.answered, p.resp, p.err = true, resp, err
	}
	p.mu.Unlock()
	p.signal()
}

func (p *pending) isAnswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// report queues progress. It reports false if the response has already arrived.
func (p *pending) report(report Progress) bool {
	p.mu.Lock()
	switch {
	case p.answered:
		p.mu.Unlock()
		return false
	case len(p.queue) == maxQueuedProgress:
		p.queue[len(p.queue)-1] = report
	default:
		p.queue = append(p.queue, report)
	}
	p.extend()
	p.mu.Unlock()
	p.signal()
	return true
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// deliver calls OnProgress for the queued reports, and reports whether the request is answered.
func (p *pending) deliver() (answered bool) {
	p.mu.Lock()
	queue, answered := p.queue, p.answered
	p.queue = nil
	p.mu.Unlock()
	for _, report := range queue {
		p.req.OnProgress(report)
	}
	return answered
}

// encode encodes a request. Its progress token is its id.
func (o *Requests) encode(p *pending) []byte {
	req, meta := p.req, o.Meta
	if req.ConnectionMeta != nil {
		meta = req.ConnectionMeta
	}
	dst := make([]byte, 0, 128+len(req.Params)+len(meta))
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !p.id.IsZero() {
		dst = append(dst, `,"id":`...)
		dst = p.id.Append(dst)
	}
	dst = append(dst, `,"method":`...)
	dst = jsonrpc.AppendString(dst, req.Method)
	hasMeta := len(meta) > 0 || req.OnProgress != nil || len(req.Meta) > 0
	if req.Params == nil && !hasMeta {
		return append(dst, '}')
	}
	dst = append(dst, `,"params":{`...)
	dst = append(dst, membersOf(req.Params)...)
	if hasMeta {
		dst = append(appendComma(dst), `"_meta":{`...)
		dst = append(dst, meta...)
		if req.OnProgress != nil {
			dst = appendComma(dst)
			dst = append(dst, `"`+mcp.MetaProgressToken+`":`...)
			dst = p.id.Append(dst)
		}
		if len(req.Meta) > 0 {
			dst = appendMeta(dst, req.Meta)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, "}}"...)
	jsonscan.ReplaceLineBreaks(dst) // raw JSON of the program may contain them
	return dst
}

// membersOf returns the text between the braces of an object.
func membersOf(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 {
		return nil
	}
	return bytes.TrimSpace(object[1 : len(object)-1])
}

func appendMeta(dst []byte, meta map[string]json.RawMessage) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		dst = appendComma(dst)
		dst = jsonrpc.AppendString(dst, key)
		dst = append(dst, ':')
		dst = append(dst, meta[key]...)
	}
	return dst
}

// appendComma appends a comma unless the object is still empty.
func appendComma(dst []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return dst
}
