package client

import (
	"errors"
	"sync"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// In 2025-11-25 the client decides whether a call runs as a task. A tool says in its definition
// whether it can, and whether it must. The client knows this of the tools that it has listed. If
// it calls another tool in the wrong way, the server rejects the call before it acts on it, and
// the client lists the tools and repeats the call.

// maxTaskSupports limits the tools whose support for tasks is remembered. Above it all are
// forgotten.
const maxTaskSupports = 10_000

// taskSupports has the support for tasks of listed tools, by name. It is safe for concurrent use.
type taskSupports struct {
	mu    sync.RWMutex
	known map[string]string
}

func (s *taskSupports) learn(tools []mcp.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tools {
		support := mcp.TaskForbidden
		if e := tools[i].Execution; e != nil && (e.TaskSupport == mcp.TaskOptional || e.TaskSupport == mcp.TaskRequired) {
			support = e.TaskSupport
		}
		if s.known == nil || len(s.known) >= maxTaskSupports {
			s.known = make(map[string]string)
		}
		s.known[tools[i].Name] = support
	}
}

// of returns the support of a tool, or "" if it is unknown.
func (s *taskSupports) of(tool string) string {
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
	return declared != nil && declared.Requests != nil && declared.Requests.Tools != nil && declared.Requests.Tools.Call != nil
}

// runsAsTask reports whether to call a tool as a task in 2025-11-25. preferred means that the
// program prefers a task.
func (c *Client) runsAsTask(tool string, preferred bool) bool {
	if !c.choosesTasks() {
		return false
	}
	support := c.supports.of(tool)
	return support == mcp.TaskRequired || preferred && support == mcp.TaskOptional
}

// isTaskMismatch reports whether err may mean that the server runs the tool only as a task, or does
// not run it as one (2025-11-25, basic/utilities/tasks, Tool-Level Negotiation). The tool has not
// run then.
func isTaskMismatch(err error) bool {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (reported.Code == jsonrpc.CodeMethodNotFound || reported.Code == jsonrpc.CodeInvalidRequest)
}
