package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// watchTasks is modern.Server.WatchTasks.
func (s *Server) watchTasks(ctx context.Context, c *rpc.Call, ids []string) (accepted []string, states <-chan json.RawMessage, stop func(), err error) {
	if !s.runsTasks.Load() {
		return nil, nil, func() {}, nil
	}
	if _, declared := c.Extension(mcp.ExtensionTasks); !declared {
		return nil, nil, nil, requiresTasks
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan json.RawMessage)
	var watching sync.WaitGroup
	end := func() {
		cancel()
		watching.Wait()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		changes, err := s.tasks.store.Watch(ctx, c.Principal(), id) // before the first reading, so that no change is missed
		if errors.Is(err, tasks.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := s.task(ctx, c, id); err != nil {
			changes.Close()
			if errors.Is(err, errUnknownTask) {
				continue
			}
			return nil, nil, nil, err
		}
		accepted = append(accepted, id)
		watching.Go(func() { s.sendStates(ctx, c, id, changes, out) })
	}
	return accepted, out, end, nil
}

// sendStates sends the state of a task, and again after each change, until the task or ctx has ended.
func (s *Server) sendStates(ctx context.Context, c *rpc.Call, id string, changes *store.Subscription, out chan<- json.RawMessage) {
	defer changes.Close()
	var last json.RawMessage
	for {
		t, raw, err := s.taskState(ctx, c, id)
		var poll *time.Timer
		switch {
		case ctx.Err() != nil, errors.Is(err, errUnknownTask):
			return
		case err != nil:
			s.logger().ErrorContext(ctx, "cannot notify a client of a task", tasks.LogID(id), "error", err)
			poll = time.NewTimer(retryTask)
		default:
			if !bytes.Equal(raw, last) {
				select {
				case out <- raw:
				case <-ctx.Done():
					return
				}
				last = raw
			}
			if t.Status.Terminal() {
				return
			}
			poll = s.pollTimer(t)
		}
		select {
		case <-changes.C:
		case <-poll.C:
		case <-ctx.Done():
		}
		poll.Stop()
	}
}

// retryTask is the time after which a task that could not be read is read again.
const retryTask = 5 * time.Second

// taskState returns a task and its state for notifications/tasks.
func (s *Server) taskState(ctx context.Context, c *rpc.Call, id string) (*tasks.Task, json.RawMessage, error) {
	t, err := s.task(ctx, c, id)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.detailedTask(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(d)
	return t, raw, err
}
