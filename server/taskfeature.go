package server

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// taskFeature is the part of a server that runs tasks.
type taskFeature struct {
	asking sync.Map // the questions of tasks/result requests, a set of taskQuestion
	parked sync.Map // the current requests of parked calls, *rpc.Call by id
	store  tasks.Store
	runner tasks.Runner
}

// attach makes c the request on which the handler of a parked call reports its progress, until the
// returned function is called.
func (f *taskFeature) attach(id string, c *rpc.Call) (detach func()) {
	f.parked.Store(id, c)
	return func() { f.parked.CompareAndDelete(id, c) }
}

func (f *taskFeature) attached(id string) *rpc.Call {
	c, _ := f.parked.Load(id)
	current, _ := c.(*rpc.Call)
	return current
}

// maxAnonymousTasks is the maximum number of tasks of all anonymous callers.
const maxAnonymousTasks = 10_000

// buildTasks sets up the store and the runner of tasks.
func (s *Server) buildTasks(kv store.KV, memory *store.Memory, seals *seal.Keys) {
	f := &s.tasks
	f.store = tasks.Store{KV: kv, Bus: memory, PerOwner: orDefault(s.Limits.TasksPerPrincipal, 1000), MaxAnonymous: maxAnonymousTasks}
	if s.Bus != nil {
		f.store.Bus = s.core.guard.Bus(s.Bus)
	} else {
		f.store.Polls = s.KV != nil
	}
	if len(s.Keys) > 0 {
		f.store.Seals = seals
	}
	r := &f.runner
	f.store.Logger = s.logger()
	r.Store, r.Logger, r.Lease = &f.store, s.logger(), &s.core.lease
	r.Max, r.Again = orDefault(s.Limits.Tasks, 1000), s.runAgain
}

// toolOf returns the tool of a stored task that has not ended, and its arguments.
func (s *Server) toolOf(t *tasks.Task) (entry *toolEntry, arguments json.RawMessage, ok bool) {
	params := jsonrpc.MembersOf(t.Request.Params)
	raw, _ := params.Get("name")
	if entry, ok = s.tools.find(jsonrpc.Unquote(raw), t.Request.Principal); !ok {
		return nil, nil, false
	}
	arguments, err := argumentsOf(params)
	if err == nil {
		entry, arguments, err = s.targetOf(context.Background(), entry, arguments, t.Request.Principal)
	}
	return entry, arguments, err == nil
}

// runAgain returns the function that runs a stored task again, or nil if its tool must not. Known is false if the
// server does not have the tool.
func (s *Server) runAgain(t *tasks.Task) (start func(*tasks.Run), known bool) {
	entry, arguments, ok := s.toolOf(t)
	if !ok || entry.task == nil || !entry.task.Replay {
		return nil, ok
	}
	return func(run *tasks.Run) {
		run.Call.Store = s.core.engine.Store
		s.runTask(run, entry, arguments)
	}, true
}
