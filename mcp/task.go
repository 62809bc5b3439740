package mcp

import (
	"encoding/json"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Task is a request that goes on after it was answered, as the tasks extension of 2026-07-28 has it.
// See [LegacyTask] for 2025-11-25.
type Task struct {
	TaskID string     `json:"taskId"`
	Status TaskStatus `json:"status"`
	// StatusMessage is for people.
	StatusMessage string `json:"statusMessage,omitempty"`
	// CreatedAt and LastUpdatedAt are times in RFC 3339 format.
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTLMs is for how many milliseconds after its creation the task is kept; nil is encoded as null
	// and means without end.
	TTLMs *int64 `json:"ttlMs"`
	// PollIntervalMs is how many milliseconds to wait before asking again; zero is no advice.
	PollIntervalMs int64 `json:"pollIntervalMs,omitzero"`
}

// TaskStatus is what state a task is in.
type TaskStatus string

// The states of tasks.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required" // it waits for the client
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Terminal reports whether s is the last state of a task: completed, failed or cancelled.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// DetailedTask is a task with what its status brings. Tasks extension.
type DetailedTask struct {
	Task

	// InputRequests are the open questions of a task that is [TaskInputRequired]. They are answered
	// with tasks/update.
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	// Result is the result of a task that is [TaskCompleted], such as the JSON of a [CallToolResult].
	Result json.RawMessage `json:"result,omitzero"`
	// Error is the error of a task that is [TaskFailed].
	Error *jsonrpc.Error `json:"error,omitzero"`
}

// CreateTaskResult answers a request that goes on as a task. Tasks extension.
type CreateTaskResult struct {
	ResultBase // ResultType is [ResultTypeTask]
	Task
}

// TaskParams are the parameters of tasks/get and tasks/cancel, and of tasks/result in 2025-11-25.
type TaskParams struct {
	ParamsBase

	TaskID string `json:"taskId"`
}

// GetTaskResult answers tasks/get. Tasks extension.
type GetTaskResult struct {
	ResultBase
	DetailedTask
}

// UpdateTaskParams are the parameters of tasks/update, which [EmptyResult] answers. Tasks extension.
type UpdateTaskParams struct {
	ParamsBase

	TaskID         string         `json:"taskId"`
	InputResponses InputResponses `json:"inputResponses"`
}

// MarshalJSON implements json.Marshaler.
func (p UpdateTaskParams) MarshalJSON() ([]byte, error) {
	type plain UpdateTaskParams
	return encode((*plain)(&p))
}

// TaskStatusParams are the parameters of notifications/tasks. Tasks extension.
type TaskStatusParams struct {
	ParamsBase // with [MetaSubscriptionID]
	DetailedTask
}
