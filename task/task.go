// Package task lets a tool run its tasks in an existing engine, such as a workflow engine or a job
// queue. Without an engine, server.AsTask is enough: the server then runs the handlers of tasks
// itself.
package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Driver starts, observes and controls the tasks of one tool. The server authorizes each request
// before it calls a method, and passes only ids that it has passed to Start. It keeps the outcome of
// a task after Get has returned it, and then no longer calls the driver for the task.
//
// All replicas of a server must have a driver of the same engine. The methods must be safe for
// concurrent use and must return when their context ends. An error that is a *[jsonrpc.Error] is
// sent to the client; the text of other errors is logged, and the client receives an internal error.
type Driver interface {
	// Start starts a task. The client receives the task after Start has returned, so Get must know it
	// then. A repetition of Start with the same id must not start a second task. If Start returns an
	// error, the call fails with it, and the server calls Cancel, because the task may have started.
	Start(ctx context.Context, s Start) error
	// Get returns the state of a task. The server calls it for each request about the task, and
	// in intervals of TaskOptions.PollInterval while a client waits.
	Get(ctx context.Context, id string) (State, error)
	// Update passes the answers to input requests of the task to the engine: the JSON objects that
	// the client has sent, by key. They are not validated. The engine ignores answers to requests
	// that are not open.
	Update(ctx context.Context, id string, answers map[string]json.RawMessage) error
	// Cancel asks the engine to cancel a task. If Start has failed, the engine may not know the
	// task. The status of the task is cancelled for the client when Cancel has returned without an
	// error, whatever the engine does.
	Cancel(ctx context.Context, id string) error
}

// Start describes a new task.
type Start struct {
	ID        string          // chosen by the server: 130 random bits in 26 letters and digits
	Tool      string          // name of the tool
	Arguments json.RawMessage // JSON object, valid by the input schema of the tool; owned by the driver
	Principal principal.Principal
	Client    mcp.ClientCapabilities // which input requests the client can answer
	Expires   time.Time              // when the server forgets the task
}

// State is the state of a task. The fields after Message belong to one status each.
type State struct {
	Status  mcp.TaskStatus // empty means [mcp.TaskWorking]
	Message string         // for display; the server cuts it at 1 KiB

	// InputRequests are the open requests of a task that is [mcp.TaskInputRequired]. A key must not be
	// used for two requests of a task.
	InputRequests mcp.InputRequests
	// Result is the result of a task that is [mcp.TaskCompleted].
	Result *mcp.CallToolResult
	// Error is the error of a task that is [mcp.TaskFailed].
	Error *jsonrpc.Error
}
