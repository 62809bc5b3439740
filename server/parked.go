package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// parkedTime is the time for all rounds of a parked call.
const parkedTime = time.Hour

// Parked lets the handler of a tool wait in [Ask] in 2026-07-28, as it does in a session, instead of
// running again from its beginning with the answers. Use it for handlers that cannot run twice, such
// as one that has a connection to another server. Other revisions and tasks are not affected.
//
// While the client gets the answers, the handler keeps its goroutine in this process, for at most an
// hour in all. Its context ends when the client cancels a request of the call, when the hour has passed,
// or when the server stops. The client's next request may reach another replica if the replicas share
// [Server.KV], [Server.Bus] and [Server.Keys]. If the process has ended, that request fails. Parked calls
// count in Limits.Tasks and Limits.TasksPerPrincipal. In a tool with [TaskOptions.AtDetach],
// Detach makes a parked call a task.
func Parked() ToolOption { return parked{} }

type parked struct{}

func (parked) ofTool(e *toolEntry) { e.parked = true }

// errNotParked is the response to a request whose call has ended.
var errNotParked = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid requestState: the call has ended or expired: send the request again without it")

// callParked serves one request of a call that can be parked.
func (s *Server) callParked(ctx context.Context, c *rpc.Call, parker rpc.Parker, entry *toolEntry, arguments json.RawMessage) (any, error) {
	id, answers := parker.Parked()
	if id == "" && c.InputKinds() == 0 && !canDetach(c, entry) { // the handler cannot ask
		return s.callAtOnce(ctx, c, entry, arguments)
	}
	if id == "" {
		h := s.newParkable(ctx, c, entry)
		go h.run(arguments)
		select {
		case a := <-h.returned:
			return a.result, a.err
		case run := <-h.parked:
			id = run.ID()
			defer s.tasks.attach(id, c)()
			select { // before this, the stored call is not worth a look
			case <-run.Asked():
			case <-h.moved:
			case <-ctx.Done():
			}
		}
	} else {
		defer s.tasks.attach(id, c)()
	}
	result, err := s.parkedRound(ctx, c, parker, id, answers)
	if ctx.Err() != nil { // the client has cancelled the request
		_, _ = s.tasks.store.Update(context.WithoutCancel(ctx), c.Principal(), id, (*tasks.Task).Cancel)
		return nil, context.Cause(ctx)
	}
	if hasNoTask(err) {
		err = errNotParked
	}
	return result, err
}

// parkedRound waits for the next questions or the outcome of a parked call.
func (s *Server) parkedRound(ctx context.Context, c *rpc.Call, parker rpc.Parker, id string, answers map[string]json.RawMessage) (any, error) {
	store, owner := &s.tasks.store, c.Principal()
	changes, err := store.Watch(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	defer changes.Close()
	if len(answers) > 0 {
		if _, err := store.Update(ctx, owner, id, func(t *tasks.Task) error { return t.Answer(answers) }); err != nil {
			return nil, err
		}
	}
	for {
		t, err := store.Get(ctx, owner, id)
		if err == nil {
			t, err = s.tasks.runner.Check(ctx, t)
		}
		switch {
		case err != nil:
			return nil, err
		case !t.Parked: // see Detach
			return createdTask(c, t), nil
		case t.Status == mcp.TaskInputRequired:
			parker.Park(id, t.Open())
			return nil, nil
		case t.Status.Terminal():
			result, err := s.outcomeOfTask(ctx, t)
			store.Remove(context.WithoutCancel(ctx), t)
			if err != nil {
				return nil, err
			}
			return result, nil
		}
		poll := s.pollTimer(t)
		select {
		case <-changes.C:
		case <-poll.C:
		case <-ctx.Done():
		}
		poll.Stop()
	}
}
