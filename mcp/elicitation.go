package mcp

import (
	"encoding/json"
	"fmt"
)

// ElicitParams are the parameters of elicitation/create, with which a server asks the client's user: to
// fill in a form or, since 2025-11-25, to visit a URL. Since 2025-06-18. Forms must not ask for
// secrets; URLs are for those.
type ElicitParams struct {
	ParamsBase

	// Mode is [ElicitModeForm] or [ElicitModeURL]; empty means form, as in 2025-06-18.
	Mode string `json:"mode,omitempty"`
	// Message tells the user what is asked and why.
	Message string `json:"message"`
	// RequestedSchema is the JSON Schema of the form's answers; see [ParseElicitSchema]. Of forms only.
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	// URL is where to send the user. Only of that mode, as is ElicitationID.
	URL string `json:"url,omitempty"`
	// ElicitationID is what notifications/elicitation/complete will refer to. 2025-11-25 only.
	ElicitationID string `json:"elicitationId,omitempty"`
	// Task asks for the request to be run as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// Values of [ElicitParams.Mode].
const (
	ElicitModeForm = "form"
	ElicitModeURL  = "url"
)

// ElicitResult answers elicitation/create.
type ElicitResult struct {
	ResultBase

	Action ElicitAction `json:"action"`
	// Content are the answers, a JSON object that fits the requested schema. Only if a form was
	// accepted.
	Content json.RawMessage `json:"content,omitzero"`
}

// ElicitAction is what the user did.
type ElicitAction string

// The actions.
const (
	ElicitAccept  ElicitAction = "accept"  // submitted the form, or consented to visit the URL
	ElicitDecline ElicitAction = "decline" // said no
	ElicitCancel  ElicitAction = "cancel"  // made no choice
)

// AcceptElicit returns the result of a form that the user submitted with the given content, which must
// encode to a JSON object.
func AcceptElicit(content any) (*ElicitResult, error) {
	raw, err := encode(content)
	if err != nil {
		return nil, fmt.Errorf("encode the content of a form: %w", err)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("the content of a form is a JSON object, not %.20s", raw)
	}
	return &ElicitResult{Action: ElicitAccept, Content: raw}, nil
}

// ElicitationCompleteParams are the parameters of notifications/elicitation/complete: what the user
// went to a URL for is done. 2025-11-25 only.
type ElicitationCompleteParams struct {
	ParamsBase

	ElicitationID string `json:"elicitationId"`
}
