package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/task"
)

// startDriven starts a task in the engine of the tool's driver. The task is stored first, so that no
// task of the engine is without one of the client.
func (s *Server) startDriven(ctx context.Context, c *rpc.Call, entry *toolEntry, arguments json.RawMessage, ttl time.Duration) (any, error) {
	if err := entry.input.Validate(arguments); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", invalidArguments(err))
	}
	t, err := storedTask(c, entry.task, ttl)
	if err != nil {
		return nil, err
	}
	t.Status, t.External = mcp.TaskWorking, true
	if err := s.tasks.store.Create(ctx, t); err != nil {
		return nil, err
	}
	start := task.Start{
		ID: t.ID, Tool: entry.tool.Name, Arguments: slices.Clone(arguments), Principal: c.Principal(), Expires: t.Expires(),
	}
	if declared := c.Peer().Capabilities; declared != nil {
		start.Client = *declared
	}
	if err := entry.task.Driver.Start(ctx, start); err != nil {
		s.abandon(context.WithoutCancel(ctx), entry.task.Driver, t)
		return nil, fmt.Errorf("tool %q: cannot start the task: %w", entry.tool.Name, err)
	}
	if ctx.Err() != nil { // the client does not receive the id
		s.abandon(context.WithoutCancel(ctx), entry.task.Driver, t)
		return nil, context.Cause(ctx)
	}
	return createdTask(c, t), nil
}

// abandon removes a task whose start has failed. The engine may have started it nevertheless, for
// instance if the response was lost.
func (s *Server) abandon(ctx context.Context, driver task.Driver, t *tasks.Task) {
	s.tasks.store.Remove(ctx, t)
	ctx, cancel := context.WithTimeout(ctx, rpc.StoreTimeout)
	defer cancel()
	if err := driver.Cancel(ctx, t.ID); err != nil {
		s.logger().WarnContext(ctx, "cannot cancel a task whose start has failed", tasks.LogID(t.ID), "error", err)
	}
}

// driverOf returns the driver of a stored task.
func (s *Server) driverOf(t *tasks.Task) (task.Driver, error) {
	entry, _, ok := s.toolOf(t)
	if !ok || entry.task == nil || entry.task.Driver == nil {
		return nil, errors.New("the tool of the task no longer has a driver")
	}
	return entry.task.Driver, nil
}

// observe asks the engine for the state of a task that has not ended, and stores it.
func (s *Server) observe(ctx context.Context, t *tasks.Task) (*tasks.Task, error) {
	driver, err := s.driverOf(t)
	if err != nil {
		return nil, err
	}
	state, err := driver.Get(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("task driver: %w", err)
	}
	owner, store := t.Request.Principal, &s.tasks.store
	update := func(change func(*tasks.Task) error) error {
		_, err := store.Update(ctx, owner, t.ID, change)
		return err
	}
	switch state.Status {
	case mcp.TaskCompleted:
		if state.Result == nil {
			return nil, errors.New("task driver: Get returned a completed task without a result")
		}
		o := outcomeOf(state.Result)
		if o.Err != nil {
			err = update(func(t *tasks.Task) error { return t.Fail(o.Err) })
			break
		}
		var inline json.RawMessage
		if inline, err = store.SaveResult(ctx, t, store.Remaining(t), o.Result); err == nil {
			err = update(func(t *tasks.Task) error { return t.Complete(inline, o.Failed) })
		}
	case mcp.TaskFailed:
		failure := state.Error
		if failure == nil {
			failure = jsonrpc.Errorf(jsonrpc.CodeInternalError, "the task failed")
		}
		err = update(func(t *tasks.Task) error { return t.Fail(failure) })
	case mcp.TaskCancelled:
		err = update((*tasks.Task).Cancel)
	case mcp.TaskInputRequired:
		err = update(func(t *tasks.Task) error { return t.Observe(state.Status, state.Message, state.InputRequests) })
	case mcp.TaskWorking, "":
		err = update(func(t *tasks.Task) error { return t.Observe(mcp.TaskWorking, state.Message, nil) })
	default:
		return nil, fmt.Errorf("task driver: Get returned the unknown status %q", state.Status)
	}
	if err != nil && !errors.Is(err, tasks.ErrEnded) { // another request may have stored the end
		return nil, err
	}
	return store.Get(ctx, owner, t.ID)
}

// answerTask passes answers to the task or to its engine.
func (s *Server) answerTask(ctx context.Context, t *tasks.Task, answers map[string]json.RawMessage) error {
	if !t.External {
		_, err := s.tasks.store.Update(ctx, t.Request.Principal, t.ID, func(t *tasks.Task) error { return t.Answer(answers) })
		return err
	}
	if t.Status.Terminal() {
		return nil
	}
	driver, err := s.driverOf(t)
	if err == nil {
		err = driver.Update(ctx, t.ID, answers)
	}
	if err != nil {
		return fmt.Errorf("task driver: %w", err)
	}
	s.tasks.store.Announce(ctx, t.Request.Principal, t.ID)
	return nil
}

// stopDriven asks the engine to cancel a task.
func (s *Server) stopDriven(ctx context.Context, t *tasks.Task) error {
	if !t.External || t.Status.Terminal() {
		return nil
	}
	driver, err := s.driverOf(t)
	if err == nil {
		err = driver.Cancel(ctx, t.ID)
	}
	if err != nil {
		return fmt.Errorf("task driver: %w", err)
	}
	return nil
}

// pollTimer returns a timer after which a task must be read again although nothing has announced a
// change: when it expires, and after its poll interval if an engine runs it or the replicas have no
// common Bus.
func (s *Server) pollTimer(t *tasks.Task) *time.Timer {
	wait := s.tasks.store.Remaining(t)
	if t.External || s.tasks.store.Polls {
		wait = min(wait, time.Duration(t.Poll)*time.Millisecond)
	}
	return time.NewTimer(wait)
}
