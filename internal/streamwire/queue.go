package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// job is a request and the semaphore that limits requests of its kind.
type job struct {
	m     *jsonrpc.Message
	class revision.Class
	slots chan struct{}
}

// errQueueFull is the response to requests that arrive when the queue is full and some of
// its requests wait for responses of the client.
var errQueueFull = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many requests are queued, and some wait for responses of this client: answer them and try again"}

// enqueue serves a request when a slot is free. It blocks while the queue is full.
func (c *connection) enqueue(ctx context.Context, j job) {
	if !c.begin() {
		c.writeError(ctx, j.m.ID, errShuttingDown)
		return
	}
	select {
	case j.slots <- struct{}{}:
		c.start(ctx, j)
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
		c.start(ctx, j)
	case c.queueSlots <- struct{}{}:
		c.wait(ctx, j)
	case <-c.session.AwaitingInput():
		c.running.Done()
		c.writeError(ctx, j.m.ID, errQueueFull)
	case <-ctx.Done():
		c.running.Done()
	}
}

// wait waits for a slot in another goroutine, so that reading continues. The next message
// may free a slot: a response to an input request, or a cancellation.
func (c *connection) wait(ctx context.Context, j job) {
	waiting, err := c.queued.Begin(ctx, j.m.ID)
	if err != nil {
		<-c.queueSlots
		c.running.Done()
		c.writeError(ctx, j.m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
		return
	}
	go func() {
		admitted := false
		select {
		case j.slots <- struct{}{}:
			admitted = true
		case <-waiting.Done():
		}
		wanted := c.queued.End(j.m.ID)
		<-c.queueSlots
		if admitted && wanted {
			c.serve(ctx, j)
			return
		}
		if admitted {
			<-j.slots
		}
		c.running.Done()
	}()
}

// maxIdleWorkers limits the goroutines that wait for another request. A goroutine that
// has served a request has a stack of the right size. Growing a new stack takes about as
// long as the rest of a short call.
const maxIdleWorkers = 64

// start serves a request in an idle worker or in a new one.
func (c *connection) start(ctx context.Context, j job) {
	select {
	case c.jobs <- j:
	default:
		go c.work(ctx, j)
	}
}

func (c *connection) work(ctx context.Context, j job) {
	for {
		c.serve(ctx, j)
		if c.idleWorkers.Add(1) > maxIdleWorkers {
			c.idleWorkers.Add(-1)
			return
		}
		select {
		case j = <-c.jobs:
			c.idleWorkers.Add(-1)
		case <-c.closing.Done():
			return
		}
	}
}

// serve serves one request and writes its response.
func (c *connection) serve(ctx context.Context, j job) {
	buf := rpc.NewBuffer()
	served := false
	defer func() {
		if !served { // the handler has ended this goroutine
			c.writeError(ctx, j.m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"})
		}
		<-j.slots
		c.running.Done()
	}()
	reply := (*buf)[:0]
	if j.class.Era == revision.Modern {
		reply = c.serveModern(ctx, reply, j)
	} else {
		reply = c.session.Serve(ctx, reply, j.m, c.conn)
	}
	served = true
	c.write(ctx, reply)
	rpc.FreeBuffer(buf, reply)
}
