package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// A server may report the changes of a task: to subscribers in 2026-07-28 (tasks extension, Task Status
// Notifications), and in the session in 2025-11-25 (basic/utilities/tasks, Task Status Notification). The
// client then polls at once. It also polls as often as without notifications, because they may be lost
// with their stream, and servers need not send them.

// taskChanges subscribes to the changes of a task during one wait. The zero value has no
// subscription.
type taskChanges struct {
	changed chan struct{}          // receives after a change; capacity 1
	reports chan outbound.Progress // in a session: the progress of the task
	done    chan struct{}          // closed when the subscription has ended; nil before the first one
	began   time.Time              // of the last subscription
}

// follow subscribes, unless there is a subscription or the last one did not last. The
// subscription ends with ctx.
func (s *taskChanges) follow(ctx context.Context, t *Task) {
	if s.changed == nil {
		s.changed, s.reports = make(chan struct{}, 1), make(chan outbound.Progress, maxTaskReports)
	}
	if s.done != nil {
		select {
		case <-s.done:
		default:
			return
		}
		if time.Since(s.began) < stableAfter {
			return
		}
	}
	done := make(chan struct{})
	s.done, s.began = done, time.Now()
	go func() {
		defer close(done)
		t.listen(ctx, s)
	}()
}

// wait waits until the subscription has ended. Its context must have ended.
func (s *taskChanges) wait() {
	if s.done != nil {
		<-s.done
	}
}

// maxTaskReports limits the progress reports that wait for a slow program.
const maxTaskReports = 64

// errNoTaskChanges ends a subscription that the server does not accept for tasks.
var errNoTaskChanges = errors.New("the server does not report changes of tasks")

// watch passes on the changes and the progress that the server reports in a session until the connection or ctx ends.
func (t *Task) watch(ctx context.Context, l *link, s *taskChanges) {
	reported, stop := l.tasks.Watch(t.id)
	defer stop()
	if t.progress != nil && t.progress.link == l { // the token is that of a request on this connection
		defer l.tasks.Follow(t.progress.token, s.report)()
	}
	for {
		select {
		case <-reported:
			s.wake()
		case <-l.dropped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wake makes the wait poll.
func (s *taskChanges) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// report passes progress to the wait. It does not block: it drops the oldest progress of a wait that is too slow.
func (s *taskChanges) report(p outbound.Progress) {
	for {
		select {
		case s.reports <- p:
			return
		default:
		}
		select {
		case <-s.reports:
		default:
		}
	}
}

// listen subscribes to the changes of the task until the connection or ctx ends.
func (t *Task) listen(ctx context.Context, s *taskChanges) {
	params, err := schema.Marshal(mcp.ListenParams{Notifications: mcp.SubscriptionFilter{TaskIDs: []string{t.id}}})
	if err != nil {
		return
	}
	l, err := t.c.connected(ctx)
	if err != nil {
		return
	}
	defer func() { t.c.release(l, l.failed() != nil) }()
	switch {
	case l.tasks != nil:
		t.watch(ctx, l, s)
		return
	case l.pollsTasks.Load():
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.dropped:
			cancel(call.ErrConnectionLost)
		case <-ctx.Done():
		}
	}()
	defer func() { <-ended }()
	defer cancel(nil)
	_, err = l.call(ctx, &outbound.Request{Method: mcp.MethodListen, Params: params, Meta: t.o.meta, OnNotification: func(m *jsonrpc.Message) {
		switch m.Method {
		case mcp.NotificationSubscriptionsAcknowledged:
			var accepted mcp.SubscriptionsAcknowledgedParams
			if schema.Decode(m.Raw, &accepted) != nil || !slices.Contains(accepted.Notifications.TaskIDs, t.id) {
				cancel(errNoTaskChanges)
			}
		case mcp.NotificationTasks:
			s.wake()
		}
	}})
	var rejected *jsonrpc.Error
	if context.Cause(ctx) == errNoTaskChanges || ctx.Err() == nil && errors.As(err, &rejected) {
		l.pollsTasks.Store(true)
	}
}
