package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// parkedTime is the time for all rounds of a parked call.
const parkedTime = time.Hour

// Parked lets the handler of a tool wait in [Ask] in 2026-07-28, as it does in a session, instead of running again from
// its beginning with the answers. Use it for handlers that cannot run twice, such as one that keeps a connection to
// another server open. Other revisions and tasks are not affected.
//
// While the client gets the answers, the handler keeps its goroutine in this process, for at most an
// hour in all. Its context ends when the client cancels a request of the call, when the hour has passed,
// or when the server stops. The client's next request may reach another replica if the replicas share
// [Server.Store] and [Server.Keys]. If the process has ended, that request fails. Parked calls
// count in Limits.Tasks and Limits.TasksPerPrincipal.
//
// With [AsTask], a call of 2026-07-28 is a task only when its handler calls [Detach]; the handler waits
// for answers until TaskOptions.Timeout if the client supports tasks, and with TaskOptions.Replay it runs
// again if its process ends meanwhile. In 2025-11-25, where the client decides, the call is a task from
// its beginning or never.
func Parked() Option { return ofTool("Parked", func(e *toolEntry) { e.parked = true }) }

// errNotParked is the response to a request whose call has ended.
var errNotParked = jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
	"invalid requestState: the call has ended or expired: send the request again without it")

// mayPark reports whether a call is parked, or its handler may park it or make it a task.
func mayPark(c *rpc.Call, parker rpc.Parker, entry *toolEntry) bool {
	if id, _ := parker.Parked(); id != "" {
		return true
	}
	return entry.parked && c.InputKinds() != 0 || canDetach(c, entry)
}

// detaches reports whether the handlers of a tool decide if a call becomes a task.
func (e *toolEntry) detaches() bool { return e.parked && e.task != nil && e.task.Driver == nil }

// canDetach reports whether the handler of a call can make it a task.
func canDetach(c *rpc.Call, entry *toolEntry) bool {
	if !entry.detaches() || !c.Can(revision.TaskExtension) {
		return false
	}
	_, declared := c.Extension(mcp.ExtensionTasks)
	return declared
}

// callParked serves one request of a call that can be parked.
func (s *Server) callParked(
	ctx context.Context, c *rpc.Call, parker rpc.Parker, entry *toolEntry, arguments json.RawMessage,
) (any, error) {
	id, answers := parker.Parked()
	if id == "" {
		h := s.newToolRun(ctx, c, entry)
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
		s.cancelAbandoned(ctx, c.Principal(), id)
		return nil, context.Cause(ctx)
	}
	if errors.Is(taskError(err), errUnknownTask) {
		err = errNotParked
	}
	return result, err
}

// parkedRound waits for the next questions or the outcome of a parked call.
func (s *Server) parkedRound(
	ctx context.Context, c *rpc.Call, parker rpc.Parker, id string, answers map[string]json.RawMessage,
) (any, error) {
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
	var result any
	ended := s.followTask(ctx, c, changes, func(t *tasks.Task, failure error) (done bool) {
		switch {
		case failure != nil:
			err = failure
		case !t.Parked: // see Detach
			t.Status, t.Message = mcp.TaskWorking, "" // the response creates the task, which may have ended meanwhile
			result = createdTask(c, t)
		case t.Status == mcp.TaskInputRequired:
			parker.Park(id, t.Open())
		case t.Status.Terminal():
			outcome, failed := s.outcomeOfTask(ctx, t)
			store.Remove(context.WithoutCancel(ctx), t)
			if err = failed; err == nil {
				result = outcome
			}
		default:
			return false
		}
		return true
	})
	if ended != nil {
		return nil, ended
	}
	return result, err
}
