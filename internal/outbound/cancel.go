package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/parley-mcp/parley/mcp"
)

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
