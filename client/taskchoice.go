package client

import (
	"errors"
	"sync"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// In 2025-11-25 the client decides whether a call runs as a task. The definition of a tool says
// whether it may run as a task, and whether it must. If a server runs tools as tasks, the client
// therefore lists them before it calls a tool that it has not listed. It does not repeat a call
// that the server rejects, because the tool may have returned the error.

// maxTaskSupports limits the tools whose support for tasks is remembered. When it is
// reached, all are forgotten.
const maxTaskSupports = 10_000

// taskSupports contains the support for tasks of listed tools, by name. It is safe for concurrent use.
type taskSupports struct {
	mu    sync.RWMutex
	known map[string]mcp.TaskSupport
}

func (s *taskSupports) learn(tools []mcp.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tools {
		support := mcp.TaskForbidden
		if e := tools[i].Execution; e != nil && (e.TaskSupport == mcp.TaskOptional ||
			e.TaskSupport == mcp.TaskRequired) {
			support = e.TaskSupport
		}
		if s.known == nil || len(s.known) >= maxTaskSupports {
			s.known = make(map[string]mcp.TaskSupport)
		}
		s.known[tools[i].Name] = support
	}
}

func (s *taskSupports) forget(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, tool)
}

// of returns the support of a tool, or "" if it is unknown.
func (s *taskSupports) of(tool string) mcp.TaskSupport {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[tool]
}

// choosesTasks reports whether the client decides which calls run as tasks.
func (c *Client) choosesTasks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialer.NoTasks || !revision.CoreTasks.In(c.last.revision) {
		return false
	}
	declared := c.last.server.Capabilities.Tasks
	return declared != nil && declared.Requests != nil && declared.Requests.Tools != nil &&
		declared.Requests.Tools.Call != nil
}

// runsAsTask reports whether to call a tool as a task in 2025-11-25. preferred reports
// whether the program prefers a task.
func (c *Client) runsAsTask(tool string, preferred bool) bool {
	if !c.choosesTasks() {
		return false
	}
	support := c.supports.of(tool)
	return support == mcp.TaskRequired || preferred && support == mcp.TaskOptional
}

// isTaskMismatch reports whether err may mean that the server runs the tool only as a task, or does
// not run it as one (2025-11-25, basic/utilities/tasks, Tool-Level Negotiation).
func isTaskMismatch(err error) bool {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (reported.Code == jsonrpc.CodeMethodNotFound || reported.Code == jsonrpc.CodeInvalidRequest)
}
