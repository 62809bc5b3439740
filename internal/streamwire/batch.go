package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// batch takes a batch, which sessions of 2025-03-26 have (basic, Batching). Its
// requests are served at the same time, and their responses sent as one batch when all
// are there; what handlers send meanwhile is not kept waiting. Each of its requests
// has a slot like any other, as far as there are so many.
func (l *link) batch(ctx context.Context, data []byte) {
	batch, fault := l.session.Batch(data, l.Limits)
	if fault != nil {
		l.refuse(ctx, jsonrpc.ID{}, fault)
		return
	}
	if batch.Has(mcp.NotificationInitialized) {
		defer l.tell(ctx)
	}
	if !batch.HasRequests() {
		l.stuck.Store(true)
		batch.Serve(ctx, nil, nil)
		l.stuck.Store(false)
		return
	}
	if !l.begin() {
		batch.Reject(errClosing)
		l.write(ctx, batch.Serve(ctx, nil, l.conn))
		return
	}
	slots := min(batch.Requests(), cap(l.slots))
	for taken := range slots {
		select {
		case l.slots <- struct{}{}:
			continue
		default:
		}
		l.stuck.Store(true)
		select {
		case l.slots <- struct{}{}:
		case <-l.session.AwaitingInput():
			l.stuck.Store(false)
			l.free(taken)
			l.running.Done()
			batch.Reject(errFull)
			l.write(ctx, batch.Serve(ctx, nil, l.conn))
			return
		case <-ctx.Done():
			l.free(taken)
			l.running.Done()
			return
		}
	}
	l.stuck.Store(false)
	go func() {
		defer l.running.Done()
		defer l.free(slots)
		l.write(ctx, batch.Serve(ctx, nil, l.conn))
	}()
}

func (l *link) free(slots int) {
	for range slots {
		<-l.slots
	}
}
