package gateway

import (
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// asTask are the options of tools that a server may run as tasks. A client of 2025-11-25 decides whether its
// call is a task. In 2026-07-28 the call becomes one when the server has created one, if the client supports
// tasks. Other clients wait for the result, also of a tool that requires a task of its own clients. Clients
// see the tasks of the gateway only.
var asTask = server.TaskOptions{Support: mcp.TaskOptional, AtDetach: true, TTL: taskTTL, Timeout: taskTTL}

// taskTTL is the life of a task and its result.
const taskTTL = 24 * time.Hour

// runsTasks reports whether a server may run a tool as a task: the tool says so in 2025-11-25, and the server
// in 2026-07-28.
func (g *Gateway) runsTasks(serverName string, tool *mcp.Tool) bool {
	if e := tool.Execution; e != nil && (e.TaskSupport == mcp.TaskOptional || e.TaskSupport == mcp.TaskRequired) {
		return true
	}
	_, declared := g.capabilities[serverName].Extensions[mcp.ExtensionTasks]
	return declared
}
