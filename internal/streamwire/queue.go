package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// job is an accepted request and the semaphore that limits requests of its kind.
type job struct {
	call  *rpc.Call
	slots chan struct{}
}

var errTooManyInFlight = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: rpc.ErrTooManyInFlight.Error()}

// errQueueFull is the response to requests that arrive when the queue is full and some of
// its requests wait for responses of the client.
var errQueueFull = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests are queued, and some wait for responses of this client: answer them and try again"}

// enqueue serves an accepted request when a slot is free, or answers with the fault. It blocks
// while the queue is full.
func (c *connection) enqueue(ctx context.Context, j job, id jsonrpc.ID, fault *jsonrpc.Error) {
	if fault != nil {
		c.writeError(ctx, id, fault)
		return
	}
	if !c.begin() {
		c.reject(ctx, j, errShuttingDown)
		return
	}
	select {
	case j.slots <- struct{}{}:
		go c.serve(ctx, j)
		return
	default:
	}
	select {
	case c.queueSlots <- struct{}{}:
		c.wait(ctx, j)
		return
	default:
	}
	c.paused.Store(true)
	defer c.paused.Store(false)
	select {
	case j.slots <- struct{}{}:
		go c.serve(ctx, j)
	case c.queueSlots <- struct{}{}:
		c.wait(ctx, j)
	case <-c.session.AwaitingInput():
		c.running.Done()
		c.reject(ctx, j, errQueueFull)
	case <-ctx.Done():
		c.session.Inflight().End(j.call.ID())
		c.running.Done()
	}
}

// reject answers an accepted request with an error.
func (c *connection) reject(ctx context.Context, j job, e *jsonrpc.Error) {
	if c.session.Inflight().End(j.call.ID()) {
		c.writeError(ctx, j.call.ID(), e)
	}
}

// wait waits for a slot in another goroutine, so that reading continues. The next message
// may free a slot: a response to an input request, or a cancellation.
func (c *connection) wait(ctx context.Context, j job) {
	go func() {
		cancelled := j.call.Context().Done()
		select {
		case j.slots <- struct{}{}:
			<-c.queueSlots
			select {
			case <-cancelled:
				<-j.slots
			default:
				c.serve(ctx, j)
				return
			}
		case <-cancelled:
			<-c.queueSlots
		}
		c.session.Inflight().End(j.call.ID())
		c.running.Done()
	}()
}

// serve serves one request and writes its response, also if a handler calls runtime.Goexit.
func (c *connection) serve(ctx context.Context, j job) {
	buf := rpc.NewBuffer()
	defer func() {
		c.write(ctx, *buf)
		rpc.FreeBuffer(buf)
		<-j.slots
		c.running.Done()
	}()
	if j.call.Revision().Modern() {
		c.Modern.AppendReply(buf, j.call, c.session.Inflight())
	} else {
		c.session.AppendReply(buf, j.call)
	}
}
