package mcp

import (
	"encoding/json"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Task is the state of a task of the tasks extension of 2026-07-28: a request that continues after
// its response. See [LegacyTask] for 2025-11-25.
type Task struct {
	// TaskID identifies the task.
	TaskID string `json:"taskId"`
	// Status is the status of the task.
	Status TaskStatus `json:"status"`
	// StatusMessage describes the status, for display.
	StatusMessage string `json:"statusMessage,omitempty"`
	// CreatedAt is the time of creation, in RFC 3339 format.
	CreatedAt string `json:"createdAt"`
	// LastUpdatedAt is the time of the last change, in RFC 3339 format.
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTLMs is the time to live from creation, in milliseconds. Nil means no limit and is encoded as
	// null.
	TTLMs *int64 `json:"ttlMs"`
	// PollIntervalMs is the recommended time between two tasks/get requests, in milliseconds. 0 means
	// no recommendation.
	PollIntervalMs int64 `json:"pollIntervalMs,omitzero"`
}

// TaskStatus is the status of a task. Since 2025-11-25.
type TaskStatus string

// The statuses of tasks.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required" // the task waits for input from the client
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Terminal reports whether s is final: completed, failed or cancelled.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// DetailedTask is a task with the data of its status. Tasks extension.
type DetailedTask struct {
	Task

	// InputRequests are the open requests for input of a task that is [TaskInputRequired]. The client
	// sends the results with tasks/update.
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	// Result is the result of a task that is [TaskCompleted], such as the JSON of a [CallToolResult].
	Result json.RawMessage `json:"result,omitzero"`
	// Error is the error of a task that is [TaskFailed].
	Error *jsonrpc.Error `json:"error,omitzero"`
}

// CreateTaskResult is the result of a request that the server runs as a task. Tasks extension.
type CreateTaskResult struct {
	ResultBase // ResultType is [ResultTypeTask]
	Task
}

// TaskParams are the parameters of tasks/get and tasks/cancel, and of tasks/result in 2025-11-25.
type TaskParams struct {
	ParamsBase

	// TaskID identifies the task.
	TaskID string `json:"taskId"`
}

// GetTaskResult is the result of tasks/get. Tasks extension.
type GetTaskResult struct {
	ResultBase
	DetailedTask
}

// UpdateTaskParams are the parameters of tasks/update, whose result is [EmptyResult]. Tasks extension.
type UpdateTaskParams struct {
	ParamsBase

	// TaskID identifies the task.
	TaskID string `json:"taskId"`
	// InputResponses are the results of the input requests of the task.
	InputResponses InputResponses `json:"inputResponses"`
}

// MarshalJSON implements json.Marshaler.
func (p UpdateTaskParams) MarshalJSON() ([]byte, error) {
	type plain UpdateTaskParams
	return encode((*plain)(&p))
}

// TaskStatusParams are the parameters of notifications/tasks. Tasks extension.
type TaskStatusParams struct {
	ParamsBase // contains [MetaSubscriptionID]
	DetailedTask
}

// LegacyTask is the state of a task in 2025-11-25: a request that continues after its response. See
// [Task] for the tasks extension of 2026-07-28.
type LegacyTask struct {
	// TaskID identifies the task.
	TaskID string `json:"taskId"`
	// Status is the status of the task.
	Status TaskStatus `json:"status"`
	// StatusMessage describes the status, for display.
	StatusMessage string `json:"statusMessage,omitempty"`
	// CreatedAt is the time of creation, in RFC 3339 format.
	CreatedAt string `json:"createdAt"`
	// LastUpdatedAt is the time of the last change, in RFC 3339 format.
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTL is the time to live from creation, in milliseconds. Nil means no limit and is encoded as
	// null.
	TTL *int64 `json:"ttl"`
	// PollInterval is the recommended time between two tasks/get requests, in milliseconds. 0 means
	// no recommendation.
	PollInterval int64 `json:"pollInterval,omitzero"`
}

// TaskMetadata requests that the receiver run a request as a task. 2025-11-25 only.
type TaskMetadata struct {
	// TTL is the requested time to live, in milliseconds. If it is nil the receiver decides.
	TTL *int64 `json:"ttl,omitzero"`
}

// RelatedTask is the value of [MetaRelatedTask]. 2025-11-25 only.
type RelatedTask struct {
	// TaskID identifies the task.
	TaskID string `json:"taskId"`
}

// LegacyCreateTaskResult is the result of a request that the receiver runs as a task. 2025-11-25
// only.
type LegacyCreateTaskResult struct {
	ResultBase

	// Task is the created task.
	Task LegacyTask `json:"task"`
}

// LegacyGetTaskResult is the result of tasks/get and tasks/cancel, whose parameters are [TaskParams]. The result of
// tasks/result is the result of the original request. 2025-11-25 only.
type LegacyGetTaskResult struct {
	ResultBase
	LegacyTask
}

// ListTasksResult is the result of tasks/list, whose parameters are [PaginatedParams]. 2025-11-25
// only.
type ListTasksResult struct {
	ResultBase
	PageInfo

	// Tasks are the tasks of one page.
	Tasks []LegacyTask `json:"tasks"`
}

// MarshalJSON implements json.Marshaler.
func (r ListTasksResult) MarshalJSON() ([]byte, error) {
	type plain ListTasksResult
	return encode((*plain)(&r))
}

// LegacyTaskStatusParams are the parameters of notifications/tasks/status. 2025-11-25 only.
type LegacyTaskStatusParams struct {
	ParamsBase
	LegacyTask
}
