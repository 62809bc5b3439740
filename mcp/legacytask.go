package mcp

// LegacyTask is a request that goes on after it was answered, as 2025-11-25 has it. See [Task] for the
// extension that followed.
type LegacyTask struct {
	TaskID string     `json:"taskId"`
	Status TaskStatus `json:"status"`
	// StatusMessage is for people.
	StatusMessage string `json:"statusMessage,omitempty"`
	// CreatedAt and LastUpdatedAt are times in RFC 3339 format.
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTL is for how many milliseconds after its creation the task is kept; nil is encoded as null
	// and means without end.
	TTL *int64 `json:"ttl"`
	// PollInterval is how many milliseconds to wait before asking again; zero is no advice.
	PollInterval int64 `json:"pollInterval,omitzero"`
}

// TaskMetadata asks for a request to be run as a task. 2025-11-25 only.
type TaskMetadata struct {
	// TTL is for how many milliseconds the task should be kept; nil leaves that to the receiver.
	TTL *int64 `json:"ttl,omitzero"`
}

// RelatedTask is the value of [MetaRelatedTask]. 2025-11-25 only.
type RelatedTask struct {
	TaskID string `json:"taskId"`
}

// LegacyCreateTaskResult answers a request that was asked to be run as a task. 2025-11-25 only.
type LegacyCreateTaskResult struct {
	ResultBase

	Task LegacyTask `json:"task"`
}

// LegacyGetTaskResult answers tasks/get and tasks/cancel, which take [TaskParams]. What the task
// resulted in answers tasks/result, as it would have answered the request itself. 2025-11-25 only.
type LegacyGetTaskResult struct {
	ResultBase
	LegacyTask
}

// ListTasksResult answers tasks/list, which takes [PaginatedParams]. 2025-11-25 only.
type ListTasksResult struct {
	ResultBase
	PageInfo

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
