package client

import (
	"sync"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// taskProgress is the progress of a call of a tool that may become a task, for [WithProgress]. The protocol has two ways
// to report that of a task. In 2025-11-25 the token of the call is valid until the task has ended, but only in its
// session (basic/utilities/progress, Behavior Requirements, 3). The tasks extension of 2026-07-28 does not allow progress
// notifications for a task (Task Status Notifications): its status message describes the progress.
// It is nil if the program wants no progress.
type taskProgress struct {
	report func(outbound.Progress)
	link   *link      // of the call; nil if it is unknown
	token  jsonrpc.ID // of the call

	mu       sync.Mutex
	notified bool    // the task has reported progress by notifications
	next     float64 // more than was reported last
	message  string  // that was reported last
}

func (c *Client) newTaskProgress(o callOptions) *taskProgress {
	if report := c.dialer.progressContained(o.onProgress); report != nil {
		return &taskProgress{report: report}
	}
	return nil
}

// reporter returns what receives the progress of the call, or nil.
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

// described reports the status message of a task, unless it was reported or the task has notifications of progress, which
// say more.
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
