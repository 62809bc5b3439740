package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// taskWait is one wait for the end of a task.
type taskWait struct {
	*Task
	failures failures
	changes  taskChanges
	polled   time.Time  // when the last poll began
	answers  chan error // delivers the outcome of answering; nil if no answer is in progress
	rejected error      // error of tasks/update
}

// errWaitEnded is the cause with which the context of handlers is cancelled when the wait ends.
var errWaitEnded = errors.New("the wait for the task ended")

// await waits for the end of the task and returns the result of its request, or its error. ended
// is false if the task may still run. The error is a *TaskError unless the request has failed.
func (t *Task) await(ctx context.Context) (raw json.RawMessage, ended bool, _ error) {
	t.mu.Lock()
	raw = t.result
	t.mu.Unlock()
	if raw != nil {
		return raw, true, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(t.c.life, func() { cancel(call.ErrClosed) })()
	w := &taskWait{Task: t}
	raw, ended, err := w.run(ctx)
	cancel(errWaitEnded)
	w.changes.wait()
	for len(w.changes.reports) > 0 {
		w.progress.reported(<-w.changes.reports)
	}
	if w.answers != nil {
		<-w.answers
	}
	if ended {
		t.forget(context.WithoutCancel(ctx))
	}
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.result = raw
		return raw, true, nil
	}
	failed, ok := err.(*taskFailed)
	if ok {
		return nil, true, failed.err
	}
	return nil, ended, &TaskError{t.id, err}
}

// taskFailed is the error of a request that ran as a task.
type taskFailed struct{ err error }

func (e *taskFailed) Error() string { return e.err.Error() }

func (w *taskWait) run(ctx context.Context) (raw json.RawMessage, ended bool, err error) {
	w.mu.Lock()
	pause := time.Until(w.due)
	w.mu.Unlock()
	if pause > 0 {
		w.changes.follow(ctx, w.Task)
	}
	for {
		if err := w.sleep(ctx, pause); err != nil {
			return nil, false, err
		}
		raw, ended, err := w.poll(ctx)
		switch {
		case ended:
			return raw, true, err
		case err != nil && ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case err != nil:
			var again bool
			if pause, again = w.failures.add(err, w.o.timeout); !again {
				return nil, false, err
			}
			continue
		}
		w.failures = failures{}
		w.changes.follow(ctx, w.Task)
		w.mu.Lock()
		pause = time.Until(w.due)
		w.mu.Unlock()
	}
}

// poll requests the state of the task once, and the result if there is one.
func (w *taskWait) poll(ctx context.Context) (raw json.RawMessage, ended bool, _ error) {
	w.polled = time.Now()
	state, r, err := w.get(ctx)
	if err == nil {
		w.progress.described(state)
	}
	switch {
	case err != nil:
		return nil, errors.Is(err, ErrTaskNotFound), err
	case state.Status == mcp.TaskCancelled:
		return nil, true, ErrTaskCancelled
	case !r.Modern():
		return w.pollSession(ctx, state)
	case state.Status == mcp.TaskCompleted:
		return state.Result, true, nil
	case state.Status == mcp.TaskFailed:
		return nil, true, &taskFailed{outbound.ClientError(state.Error)}
	case w.rejected != nil:
		return nil, false, w.rejected
	case state.Status == mcp.TaskInputRequired && w.answers == nil:
		return nil, false, w.beginAnswer(ctx, state.InputRequests)
	}
	return nil, false, nil
}

// pollSession requests the result of a task of 2025-11-25 that has ended or requires input. The
// response comes when the task has ended.
func (w *taskWait) pollSession(ctx context.Context, state *mcp.DetailedTask) (json.RawMessage, bool, error) {
	if state.Status == mcp.TaskWorking {
		return nil, false, nil
	}
	raw, err := w.awaitResult(ctx)
	var late *call.TimeoutError
	var reported *jsonrpc.Error
	switch {
	case err == nil:
		return raw, true, nil
	case ctx.Err() != nil:
		return nil, false, err
	case state.Status == mcp.TaskInputRequired && errors.As(err, &late): // the task still works
		return nil, false, nil
	case errors.As(err, &reported) && (state.Status.Terminal() || isInvalidParams(err)):
		return nil, true, &taskFailed{err}
	case errors.As(err, &reported): // the task may have ended meanwhile
		now, _, getErr := w.get(ctx)
		switch {
		case getErr != nil:
			return nil, errors.Is(getErr, ErrTaskNotFound), getErr
		case now.Status == mcp.TaskCancelled:
			return nil, true, ErrTaskCancelled
		case now.Status.Terminal():
			return nil, true, &taskFailed{err}
		}
	}
	return nil, false, err
}

// awaitResult requests the result of a task of 2025-11-25, and reports progress in the meantime.
func (w *taskWait) awaitResult(ctx context.Context) (raw json.RawMessage, err error) {
	received := make(chan struct{})
	go func() {
		defer close(received)
		raw, err = w.finalResult(ctx)
	}()
	for {
		select {
		case p := <-w.changes.reports:
			w.progress.reported(p)
		case <-received:
			return raw, err
		}
	}
}

// beginAnswer starts answering the new input requests. Polling continues in the meantime, so
// that the handlers end when the task does.
func (w *taskWait) beginAnswer(ctx context.Context, questions mcp.InputRequests) error {
	claimed, err := w.claim(questions)
	if err != nil || len(claimed) == 0 {
		return err
	}
	answers := make(chan error, 1)
	w.answers = answers
	go func() {
		responses, err := w.ask(ctx, claimed)
		if err == nil {
			err = w.deliver(ctx, responses)
		}
		if err != nil {
			w.unclaim(claimed)
		}
		answers <- err
	}()
	return nil
}

// updateError is the error of a tasks/update request.
type updateError struct{ err error }

func (e *updateError) Error() string { return e.err.Error() }
func (e *updateError) Unwrap() error { return e.err }

// deliver sends responses to the server, again after failures that may be temporary. The server
// ignores responses that it already has.
func (w *taskWait) deliver(ctx context.Context, responses mcp.InputResponses) error {
	var failed failures
	for {
		err := w.update(ctx, responses)
		if err == nil {
			return nil
		}
		pause, again := failed.add(err, w.o.timeout)
		if !again {
			return &updateError{err}
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// sleep waits until the next poll is due, or until the server reports a change. It returns an
// error if the input requests cannot be answered.
func (w *taskWait) sleep(ctx context.Context, pause time.Duration) error {
	due := time.Now().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case err := <-w.answers:
			w.answers = nil
			if rejected, ok := errors.AsType[*updateError](err); ok {
				w.rejected = rejected // decided by the next poll, because the task may have ended
			} else if err != nil {
				return err
			}
		case p := <-w.changes.reports:
			w.progress.reported(p)
		case <-w.changes.changed:
			timer.Reset(min(time.Until(due), time.Until(w.polled.Add(minPoll))))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Bounds of the time between two polls.
const (
	defaultPoll = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = 5 * time.Minute
)

// received schedules the next poll.
func (t *Task) received(state *mcp.DetailedTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = time.Now()
	if !state.Status.Terminal() {
		t.due = t.due.Add(pollInterval(&state.Task))
	}
}

// pollInterval returns the time until the next poll: what the server recommends, but short
// enough that the task does not expire in the meantime.
func pollInterval(t *mcp.Task) time.Duration {
	interval := defaultPoll
	if t.PollIntervalMs > 0 {
		interval = time.Duration(min(t.PollIntervalMs, maxPoll.Milliseconds())) * time.Millisecond
	}
	if ttl := t.TTLMs; ttl != nil && *ttl > 0 {
		interval = min(interval, time.Duration(min(*ttl, 2*maxPoll.Milliseconds()))*time.Millisecond/2)
	}
	interval = max(interval, minPoll)
	return interval + rand.N(interval/10) // jitter, so that clients do not all poll at once
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failures counts consecutive failures of requests about a task.
type failures struct {
	n     int
	since time.Time
}

// add records a failure and returns the pause before the next attempt. again is false if err is
// permanent, or if the next attempt would begin later than limit after the first failure. If limit
// is 0, there is no limit.
func (f *failures) add(err error, limit time.Duration) (pause time.Duration, again bool) {
	if f.n == 0 {
		f.since = time.Now()
	}
	f.n++
	pause = retryPause(f.n, err)
	if !isTemporary(err) || limit > 0 && time.Since(f.since)+pause > limit {
		return 0, false
	}
	return pause, true
}

// isTemporary reports whether a request about a task may succeed later. The task outlives
// connections, servers and time-outs.
func isTemporary(err error) bool {
	var status *call.StatusError
	var rejected *updateError
	switch {
	case errors.As(err, &rejected):
		return false
	case errors.Is(err, call.ErrInvalidResponse), errors.Is(err, call.ErrUnauthorized),
		errors.Is(err, errors.ErrUnsupported):
		return false
	case !isTransient(err):
		return false
	case errors.As(err, &status):
		return status.Status >= 500 || status.Status == http.StatusRequestTimeout ||
			status.Status == http.StatusTooManyRequests
	}
	return true
}

// maxExceeded is the error of a call whose task runs longer than Timeouts.Max.
func maxExceeded(limit time.Duration) error {
	return fmt.Errorf("the task did not end: %w", &call.TimeoutError{Method: mcp.MethodCallTool, After: limit})
}

// taskProgress is the progress of a call of a tool that may become a task, for [WithProgress]. The protocol has two
// ways to report the progress of a task. In 2025-11-25, the token of the call is valid until the task has ended, but
// only in its session (basic/utilities/progress, Behavior Requirements, 3). The tasks extension of 2026-07-28 does
// not allow progress notifications for a task (Task Status Notifications): its status message describes the progress.
// It is nil if the program wants no progress.
type taskProgress struct {
	report func(outbound.Progress)
	link   *link      // connection of the call; nil if it is unknown
	token  jsonrpc.ID // progress token of the call

	mu       sync.Mutex
	notified bool    // the task has sent progress notifications
	next     float64 // exceeds the last reported progress
	message  string  // last reported message
}

func (c *Client) newTaskProgress(o callOptions) *taskProgress {
	if report := c.dialer.progressContained(o.onProgress); report != nil {
		return &taskProgress{report: report}
	}
	return nil
}

// reporter returns the function that receives the progress of the call, or nil.
func (p *taskProgress) reporter() func(outbound.Progress) {
	if p == nil {
		return nil
	}
	return p.called
}

// called reports progress of the call.
func (p *taskProgress) called(report outbound.Progress) {
	p.mu.Lock()
	p.next, p.message = report.Done+1, report.Message
	p.mu.Unlock()
	p.report(report)
}

// reported reports progress of the task.
func (p *taskProgress) reported(report outbound.Progress) {
	p.mu.Lock()
	p.notified = true
	p.mu.Unlock()
	p.called(report)
}

// described reports the status message of a task, unless it was reported before, or the task sends progress
// notifications, which say more.
func (p *taskProgress) described(state *mcp.DetailedTask) {
	if p == nil || state.Status != mcp.TaskWorking || state.StatusMessage == "" {
		return
	}
	p.mu.Lock()
	report := outbound.Progress{Done: p.next, Message: state.StatusMessage}
	known := p.notified || p.message == report.Message
	p.mu.Unlock()
	if !known {
		p.called(report)
	}
}
