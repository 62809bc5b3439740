package mcp

import (
	"encoding/json"
	"fmt"
)

// ElicitParams are the parameters of elicitation/create, with which a server asks the user of the
// client to fill in a form or, since 2025-11-25, to open a URL. A form must not ask for secrets; use
// a URL for them. Since 2025-06-18.
type ElicitParams struct {
	ParamsBase

	// Mode is [ElicitModeForm] or [ElicitModeURL]. Empty means form, as in 2025-06-18.
	Mode string `json:"mode,omitempty"`
	// Message tells the user what the server needs and why.
	Message string `json:"message"`
	// RequestedSchema is the JSON Schema of the form; see [ParseElicitSchema]. Forms only.
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	// URL is the URL to open; see [ParseElicitURL]. URLs only.
	URL string `json:"url,omitempty"`
	// ElicitationID identifies the elicitation in notifications/elicitation/complete. URLs only.
	// 2025-11-25 only.
	ElicitationID string `json:"elicitationId,omitempty"`
	// Task requests that the client run the request as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// Values of [ElicitParams.Mode].
const (
	ElicitModeForm = "form"
	ElicitModeURL  = "url"
)

// ElicitResult is the result of elicitation/create.
type ElicitResult struct {
	ResultBase

	// Action is the decision of the user.
	Action ElicitAction `json:"action"`
	// Content is the submitted form, a JSON object that matches the requested schema. It is present
	// only if the user has submitted a form.
	Content json.RawMessage `json:"content,omitzero"`
}

// ElicitAction is the decision of the user about an elicitation.
type ElicitAction string

// The actions.
const (
	ElicitAccept  ElicitAction = "accept"  // submitted the form, or agreed to open the URL
	ElicitDecline ElicitAction = "decline" // declined explicitly
	ElicitCancel  ElicitAction = "cancel"  // dismissed without a choice
)

// AcceptElicit returns the result for a form that the user has submitted. content is the answer and
// must encode to a JSON object.
func AcceptElicit(content any) (*ElicitResult, error) {
	raw, err := encode(content)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the content of the form: %w", err)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("the content of the form must be a JSON object, got %.20s", raw)
	}
	return &ElicitResult{Action: ElicitAccept, Content: raw}, nil
}

// ElicitationCompleteParams are the parameters of notifications/elicitation/complete, which a server
// sends when the user has finished at a URL. 2025-11-25 only.
type ElicitationCompleteParams struct {
	ParamsBase

	// ElicitationID is the [ElicitParams.ElicitationID] of the request.
	ElicitationID string `json:"elicitationId"`
}
